#include "runtime/machine_rates.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "runtime/cpu/barrier_time.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/rate_loops.h"
#include "runtime/cpu/read_bandwidth.h"
#include "runtime/cpu/workers.h"
#include "runtime/machines.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr int kPasses = 5;

// Processor time, in which other work on the machine does not count: two threads that take turns on one core of this
// system have a core each in it, two on hyper-threads of one core have not.
double thread_seconds() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// A cache line for each worker.
constexpr size_t kFloatsApart = 16, kDoublesApart = 8;

struct TimedLoop {
  KernelEntry loop;
  double* seconds;
};

// Buffer 1 is a TimedLoop.
void run_timed(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts, std::byte*, int64_t) {
  const auto* timed = static_cast<const TimedLoop*>(buffers[1]);
  const double begin = thread_seconds();
  timed->loop(buffers, symbols, part, parts, nullptr, 1);
  timed->seconds[static_cast<size_t>(part) * kDoublesApart] = thread_seconds() - begin;
}

// In front of it, so that workers begin together.
void do_nothing(const void* const*, const int64_t*, int64_t, int64_t, std::byte*, int64_t) {}

// Loops of one operation each, made once, in some milliseconds.
class Arithmetic {
 public:
  static Result<Arithmetic> make();
  // Operations a second of all workers together; 0: there are no such operations.
  double multiply_adds(Workers& workers) const { return rate(multiply_adds_, workers); }
  double byte_dots(Workers& workers) const { return rate(byte_dots_, workers); }
  double unit(Workers& workers) const { return rate(unit_, workers); }

 private:
  struct Loop {
    KernelEntry entry = nullptr;
    double operations = 0;  // of one worker in one pass
  };

  Result<Loop> compile(const std::optional<RateLoop>& loop);
  static double rate(const Loop& loop, Workers& workers);

  std::unique_ptr<Device> device_;  // owns the loops' code
  Loop multiply_adds_, byte_dots_, unit_;
};

Result<Arithmetic> Arithmetic::make() {
  Arithmetic made;
  SMELT_TRY(device, open_cpu_device({.threads = 1, .use_cache = false}));
  made.device_ = std::move(device);
  const Machine machine = host_machine();
  SMELT_TRY(multiply_adds, made.compile(multiply_add_loop(machine)));
  SMELT_TRY(byte_dots, made.compile(byte_dot_loop(machine)));
  SMELT_TRY(unit, made.compile(matrix_unit_loop(machine)));
  made.multiply_adds_ = multiply_adds;
  made.byte_dots_ = byte_dots;
  made.unit_ = unit;
  return made;
}

Result<Arithmetic::Loop> Arithmetic::compile(const std::optional<RateLoop>& loop) {
  if (!loop) return Loop{};
  const Source source{.text = loop->text, .entry = "rate"};
  SMELT_TRY(kernels, device_->compile({&source, 1}));
  return Loop{cpu_entry_of(kernels[0]), loop->operations};
}

double Arithmetic::rate(const Loop& of, Workers& workers) {
  if (!of.entry) return 0;
  const auto count = static_cast<size_t>(workers.count());
  std::vector<float> sums(count * kFloatsApart);
  std::vector<double> seconds(count * kDoublesApart);
  const TimedLoop loop{of.entry, seconds.data()};
  const void* buffers[] = {sums.data(), &loop};
  const CpuLaunch launches[] = {{do_nothing, buffers}, {run_timed, buffers}};
  const int64_t symbols[8] = {};
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    workers.run(launches, symbols);
    double all = 0;
    for (size_t worker = 0; worker < count; ++worker)
      all += of.operations / std::max(seconds[worker * kDoublesApart], 1e-9);
    best = std::max(best, all);
  }
  // Threads beyond the cores take turns: their processor time does not pass at the same time.
  const double at_once = std::min(1.0, static_cast<double>(host_target().cores) / static_cast<double>(count));
  return best * at_once;
}

}  // namespace

Result<MeasuredRates> measure_rates(int threads) {
  static Result<Arithmetic> arithmetic = Arithmetic::make();
  if (!arithmetic) return arithmetic.error();
  Workers workers(thread_count(threads)), one(1);
  MeasuredRates rates;
  rates.bandwidth = read_bandwidth(workers) * 1e9;
  rates.one_thread = arithmetic->multiply_adds(one);
  rates.all_threads = arithmetic->multiply_adds(workers);
  rates.byte_dots = arithmetic->byte_dots(workers);
  rates.unit = arithmetic->unit(workers);
  rates.barrier_seconds = seconds_of_barrier(workers);
  return rates;
}

}  // namespace smelt
