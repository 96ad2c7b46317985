#include "app/arithmetic.h"

#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "app/bench_table.h"

namespace smelt {
namespace {

constexpr int kChains = 16;  // independent multiply-adds, more than the latency of one
constexpr int64_t kRounds = 200'000;
constexpr int kPasses = 5;

// Processors that slow down when all cores work have 0.75 to 1 of a core's arithmetic in each; two threads of one core
// have half.
constexpr double kOwnCore = 0.7;

// Each worker on its own; the sums go to buffer 0. Without such an instruction a multiplication and an addition.
std::string multiply_add_text(int lanes, bool has_fma) {
  const std::string vector = "<" + std::to_string(lanes) + " x float>";
  const std::string fma = "llvm.fma.v" + std::to_string(lanes) + "f32";
  const auto chain = [](const char* name, int i) { return std::string(name) + std::to_string(i); };
  std::string phis, steps, sums;
  for (int i = 0; i < kChains; ++i) {
    phis += "  " + chain("%a", i) + " = phi " + vector + " [ %x, %entry ], [ " + chain("%b", i) +
            ", %loop ]\n";
    if (has_fma)
      steps += "  " + chain("%b", i) + " = call " + vector + " @" + fma + "(" + vector + " " +
               chain("%a", i) + ", " + vector + " %x, " + vector + " %x)\n";
    else
      steps += "  " + chain("%m", i) + " = fmul " + vector + " " + chain("%a", i) + ", %x\n  " +
               chain("%b", i) + " = fadd " + vector + " " + chain("%m", i) + ", %x\n";
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
void run_timed(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts) {
  const auto* timed = static_cast<const TimedLoop*>(buffers[1]);
  const double begin = thread_seconds();
  timed->loop(buffers, symbols, part, parts);
  timed->seconds[static_cast<size_t>(part) * kDoublesApart] = thread_seconds() - begin;
}

// In front of it, so that workers begin together.
void do_nothing(const void* const*, const int64_t*, int64_t, int64_t) {}

// "1.0", or "1.0 to 2.0" where rounding does not make them one.
std::string range_text(const char* format, double least, double most) {
  const std::string from = text_of(format, least), to = text_of(format, most);
  return from == to ? to : from + " to " + to;
}

}  // namespace

Result<Arithmetic> Arithmetic::make() {
  Arithmetic made;
  SMELT_TRY(device, CpuDevice::open({.threads = 1, .use_cache = false}));
  made.device_ = std::move(device);
  const int lanes = made.device_->target().vector_bytes / 4;
  const Source source{.text = multiply_add_text(lanes, made.device_->target().fma),
                      .entry = "multiply_add"};
  made.entry_ = made.device_->compile({&source, 1})[0];
  made.operations_ = 2.0 * kChains * lanes * kRounds;
  return made;
}

double Arithmetic::rate(Workers& workers) const {
  const auto count = static_cast<size_t>(workers.count());
  std::vector<float> sums(count * kFloatsApart);
  std::vector<double> seconds(count * kDoublesApart);
  const TimedLoop loop{entry_, seconds.data()};
  const void* buffers[] = {sums.data(), &loop};
  const Launch launches[] = {{do_nothing, buffers}, {run_timed, buffers}};
  const int64_t symbols[8] = {};
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    workers.run(launches, symbols);
    double all = 0;
    for (size_t worker = 0; worker < count; ++worker)
      all += operations_ / std::max(seconds[worker * kDoublesApart], 1e-9);
    best = std::max(best, all);
  }
  return best;
}

double ArithmeticSeen::least_cores() const { return one_thread > 0 ? least / one_thread : 0; }
double ArithmeticSeen::most_cores() const { return one_thread > 0 ? most / one_thread : 0; }

void ArithmeticSeen::add(double one, double all) {
  one_thread = std::max(one_thread, one);
  least = least > 0 ? std::min(least, all) : all;
  most = std::max(most, all);
}

void ArithmeticSeen::add(const ArithmeticSeen& other) {
  if (other.most <= 0) return;
  add(other.one_thread, other.least);
  add(other.one_thread, other.most);
}

std::string arithmetic_text(const ArithmeticSeen& seen) {
  if (seen.most <= 0) return "arithmetic was not measured";
  const std::string cores =
      seen.threads == 1 || seen.one_thread <= 0
          ? ""
          : " (" + range_text("%.1f", seen.least_cores(), seen.most_cores()) + " times one thread)";
  return "arithmetic reaches " + range_text("%.0f", seen.least / 1e9, seen.most / 1e9) +
         " GFLOP/s" + cores;
}

nlohmann::ordered_json json_of(const ArithmeticSeen& seen) {
  return {{"flops_of_one_thread", seen.one_thread},
          {"flops_at_least", seen.least},
          {"flops_at_most", seen.most},
          {"cores_at_least", seen.least_cores()},
          {"cores_at_most", seen.most_cores()}};
}

std::string sharing_note(const ArithmeticSeen& seen, int cores) {
  if (seen.threads == 1 || seen.threads > cores || seen.least <= 0) return "";
  if (seen.least_cores() >= kOwnCore * seen.threads) return "";
  const bool always = seen.most_cores() < kOwnCore * seen.threads;
  return std::to_string(seen.threads) + " threads reach " +
         text_of("%.1f times the arithmetic of one", seen.least_cores()) +
         (always ? ": " : " at times: ") + (seen.threads == 2 ? "they seem" : "some seem") +
         " to share a core" + (always ? "" : " then") +
         "; figures of this run do not compare with others\n";
}

}  // namespace smelt
