#include "runtime/machine_rates.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "runtime/cpu/barrier_time.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/read_bandwidth.h"
#include "runtime/cpu/workers.h"
#include "runtime/machines.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr int kChains = 16;  // independent multiply-adds, more than the latency of one
constexpr int64_t kRounds = 200'000;
constexpr int kPasses = 5;

// Each worker on its own; the sums go to buffer 0. Without such an instruction a multiplication and an addition.
std::string multiply_add_text(int lanes, bool has_fma) {
  const std::string vector = "<" + std::to_string(lanes) + " x float>";
  const std::string fma = "llvm.fma.v" + std::to_string(lanes) + "f32";
  const auto chain = [](const char* name, int i) { return std::string(name) + std::to_string(i); };
  std::string phis, steps, sums;
  for (int i = 0; i < kChains; ++i) {
    phis += "  " + chain("%a", i) + " = phi " + vector + " [ %x, %entry ], [ " + chain("%b", i) + ", %loop ]\n";
    if (has_fma)
      steps += "  " + chain("%b", i) + " = call " + vector + " @" + fma + "(" + vector + " " + chain("%a", i) + ", " +
               vector + " %x, " + vector + " %x)\n";
    else
      steps += "  " + chain("%m", i) + " = fmul " + vector + " " + chain("%a", i) + ", %x\n  " + chain("%b", i) +
               " = fadd " + vector + " " + chain("%m", i) + ", %x\n";
    sums += "  " + chain("%s", i) + " = fadd " + vector + " " + (i ? chain("%s", i - 1) : std::string("%x")) + ", " +
            chain("%b", i) + "\n";
  }
  return "define void @multiply_add(ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 %begins) "
         "{\nentry:\n"
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

// A loop of f32 multiply-adds in registers, as wide as the processor's vectors. Made once, in some milliseconds.
class Arithmetic {
 public:
  static Result<Arithmetic> make();
  double rate(Workers& workers) const;

 private:
  std::unique_ptr<Device> device_;  // owns the loop's code
  KernelEntry entry_ = nullptr;
  double operations_ = 0;  // of one worker in one pass
};

Result<Arithmetic> Arithmetic::make() {
  Arithmetic made;
  SMELT_TRY(device, open_cpu_device({.threads = 1, .use_cache = false}));
  made.device_ = std::move(device);
  const int lanes = host_machine().lanes();
  const Source source{.text = multiply_add_text(lanes, host_machine().fma), .entry = "multiply_add"};
  SMELT_TRY(kernels, made.device_->compile({&source, 1}));
  made.entry_ = cpu_entry_of(kernels[0]);
  made.operations_ = 2.0 * kChains * lanes * kRounds;
  return made;
}

double Arithmetic::rate(Workers& workers) const {
  const auto count = static_cast<size_t>(workers.count());
  std::vector<float> sums(count * kFloatsApart);
  std::vector<double> seconds(count * kDoublesApart);
  const TimedLoop loop{entry_, seconds.data()};
  const void* buffers[] = {sums.data(), &loop};
  const CpuLaunch launches[] = {{do_nothing, buffers}, {run_timed, buffers}};
  const int64_t symbols[8] = {};
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    workers.run(launches, symbols);
    double all = 0;
    for (size_t worker = 0; worker < count; ++worker)
      all += operations_ / std::max(seconds[worker * kDoublesApart], 1e-9);
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
  rates.one_thread = arithmetic->rate(one);
  rates.all_threads = arithmetic->rate(workers);
  rates.barrier_seconds = seconds_of_barrier(workers);
  return rates;
}

}  // namespace smelt
