#include "app/profile_machine.h"

#include <algorithm>
#include <string>
#include <vector>

#include "app/stopwatch.h"
#include "runtime/cpu_device.h"
#include "runtime/memory.h"

namespace smelt {
namespace {

constexpr int kChains = 16;  // independent multiply-adds, more than the latency of one
constexpr int64_t kRounds = 200'000;
constexpr int kPasses = 5;
constexpr size_t kLaunches = 2000;

// A loop of multiply-adds on vectors of the machine's width, each worker on its own; the sums go to buffer 0.
std::string multiply_add_text(int lanes) {
  const std::string vector = "<" + std::to_string(lanes) + " x float>";
  const std::string fma = "llvm.fma.v" + std::to_string(lanes) + "f32";
  const auto chain = [](const char* name, int i) { return std::string(name) + std::to_string(i); };
  std::string phis, steps, sums;
  for (int i = 0; i < kChains; ++i) {
    phis += "  " + chain("%a", i) + " = phi " + vector + " [ %x, %entry ], [ " + chain("%b", i) +
            ", %loop ]\n";
    steps += "  " + chain("%b", i) + " = call " + vector + " @" + fma + "(" + vector + " " +
             chain("%a", i) + ", " + vector + " %x, " + vector + " %x)\n";
    sums += "  " + chain("%s", i) + " = fadd " + vector + " " +
            (i ? chain("%s", i - 1) : std::string("%x")) + ", " + chain("%b", i) + "\n";
  }
  return "define void @multiply_add(ptr %buffers, ptr %symbols, i64 %part, i64 %parts) {\nentry:\n"
         "  %out = load ptr, ptr %buffers\n"
         "  %offset = mul i64 %part, 64\n"
         "  %mine = getelementptr i8, ptr %out, i64 %offset\n"
         "  %x = load " +
         vector +
         ", ptr %mine, align 4\n"
         "  br label %loop\nloop:\n"
         "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n" +
         phis + steps +
         "  %next = add i64 %i, 1\n"
         "  %more = icmp slt i64 %next, " +
         std::to_string(kRounds) +
         "\n"
         "  br i1 %more, label %loop, label %done\ndone:\n" +
         sums + "  store " + vector + " " + chain("%s", kChains - 1) +
         ", ptr %mine, align 4\n  ret void\n}\n"
         "declare " +
         vector + " @" + fma + "(" + vector + ", " + vector + ", " + vector + ")\n";
}

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
  SMELT_TRY(device, CpuDevice::open({.threads = threads, .use_cache = false}));
  Workers& workers = device->workers();
  MachineRates rates{.threads = workers.count()};
  rates.bytes_per_second = read_bandwidth(workers) * 1e9;

  const int lanes = device->target().vector_bytes / 4;
  const Source source{.text = multiply_add_text(lanes), .entry = "multiply_add"};
  const KernelEntry entry = device->compile({&source, 1})[0];
  std::vector<float> sums(static_cast<size_t>(workers.count()) * 16);
  const void* buffers[] = {sums.data()};
  const double operations = 2.0 * kChains * lanes * kRounds * workers.count();
  rates.float_ops_per_second = operations / best_seconds(workers, {{entry, buffers}});

  rates.barrier_seconds =
      best_seconds(workers, std::vector<Launch>(kLaunches, {do_nothing, buffers})) / kLaunches;
  return rates;
}

}  // namespace smelt
