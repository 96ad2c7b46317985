#include "app/profile_machine.h"

#include <algorithm>
#include <vector>

#include "app/stopwatch.h"
#include "runtime/memory.h"
#include "runtime/target.h"
#include "runtime/workers.h"

namespace smelt {
namespace {

constexpr int kPasses = 5;
constexpr size_t kLaunches = 2000;

void do_nothing(const void* const*, const int64_t*, int64_t, int64_t) {}

double best_seconds(Workers& workers, const std::vector<Launch>& launches) {
  const int64_t symbols[8] = {};
  double best = 1e9;
  for (int i = 0; i < kPasses; ++i) {
    Stopwatch watch;
    workers.run(launches, symbols);
    best = std::min(best, watch.lap());
  }
  return best;
}

}  // namespace

Result<MachineRates> measure_machine(int threads) {
  Workers workers(thread_count(threads));
  MachineRates rates{.threads = workers.count(), .cores = host_target().cores};
  rates.bytes_per_second = read_bandwidth(workers) * 1e9;

  SMELT_TRY(arithmetic, Arithmetic::make());
  Workers one(1);
  rates.arithmetic.threads = workers.count();
  rates.arithmetic.add(arithmetic.rate(one), arithmetic.rate(workers));

  const void* buffers[] = {nullptr};
  rates.barrier_seconds =
      best_seconds(workers, std::vector<Launch>(kLaunches, {do_nothing, buffers})) / kLaunches;
  return rates;
}

}  // namespace smelt
