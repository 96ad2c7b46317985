#include "app/profile_advice.h"

#include <algorithm>

#include "app/text_of.h"

namespace smelt {
namespace {

constexpr double kMatters = 0.01;     // of the plan's time
constexpr double kGoodEnough = 0.7;   // of what memory or arithmetic allows
constexpr double kNearBarrier = 5;    // barriers
constexpr double kIdle = 0.15;        // of the workers' time
constexpr double kPacked = 0.75;      // of the workers that could have a task each
constexpr double kManyRemote = 0.2;   // of the bytes of weights
constexpr double kManyGathers = 0.1;  // of the loads
constexpr double kManyScalars = 0.3;  // of the operations
constexpr double kManyPasses = 1.5;   // over the weights
constexpr double kRepeats = 1.5;      // as many operations as needed
constexpr double kSerial = 0.3;       // of the time in loops
constexpr double kFarBelow = 0.35;    // of both rooflines

// Part of the workers' time that is lost when tasks of equal cost do not come out even.
double idle_share(int64_t tasks, int threads) {
  if (tasks <= 0) return 0;
  const int64_t rounds = (tasks + threads - 1) / threads;
  return 1 - static_cast<double>(tasks) / static_cast<double>(rounds * threads);
}

// A GPU decides itself where blocks go.
bool is_packed(const ProfiledKernel& k, int threads) {
  const auto could = static_cast<double>(std::min<int64_t>(k.tasks, threads));
  return k.workers > 0 && k.workers_per_call() < kPacked * could;
}

}  // namespace

std::vector<std::string> advice_on(const ProfiledKernel& k, const MachineRates& machine, double plan_seconds) {
  std::vector<std::string> out;
  if (k.seconds < kMatters * plan_seconds || k.seconds <= 0) return out;
  const double memory = k.bytes() / machine.bytes_per_second / k.seconds;
  const ArithmeticShare arithmetic = arithmetic_share(k, machine);
  if (std::max(memory, arithmetic.share) > kGoodEnough) return out;

  if (k.seconds_per_call() < kNearBarrier * machine.barrier_seconds)
    out.push_back(text_of("barrier-bound: %.2f us a call, an empty launch takes %.2f us; fuse it with a neighbour",
                          k.seconds_per_call() * 1e6, machine.barrier_seconds * 1e6));
  const bool packed = is_packed(k, machine.threads);
  if (packed)
    out.push_back(
        text_of("packed: %lld tasks came to %.0f of %d workers, which have several where others have none; blocks of "
                "which fewer fit a worker (more on-chip memory for each)",
                static_cast<long long>(k.tasks), k.workers_per_call(), machine.threads));
  if (const double idle = idle_share(k.tasks, machine.threads); idle > kIdle)
    out.push_back(
        text_of("too little parallelism: %lld %s for %d workers leave them idle for %.0f %%; split "
                "another axis or the reduction",
                static_cast<long long>(k.tasks), k.tasks == 1 ? "task" : "tasks", machine.threads, idle * 100));
  else if (k.waiting > kIdle * k.seconds && out.empty())
    out.push_back(text_of(
        "imbalance: workers wait %.0f %% of its time for the last one; more and smaller tasks, or cores that do "
        "nothing else",
        k.waiting / k.seconds * 100));
  if (k.remote_share > kManyRemote)
    out.push_back(
        text_of("remote memory: %.0f %% of its weights lie on another node of memory than the worker that reads them; "
                "let weights be packed at load (no --no-repack, no --pack-cache), or keep to the cores of one node "
                "(taskset)",
                k.remote_share * 100));
  if (k.scalar_share > kManyScalars)
    out.push_back(
        text_of("not vectorised: %.0f %% of the operations are in nests without SIMD lanes", k.scalar_share * 100));
  if (k.serial_share > kSerial)
    out.push_back(
        text_of("serial reduction: in loops with %.0f %% of the time each round waits %d cycles for "
                "the sum of the one before, and has %d instructions; more sums side by side",
                k.serial_share * 100, k.serial_cycles, k.serial_instructions));
  if (k.weight_gather_share > kManyGathers)
    out.push_back(
        text_of("wrong layout: %.0f %% of the loads take each lane of a weight from an address of its "
                "own; one in which lanes are neighbours",
                k.weight_gather_share * 100));
  if (k.gather_share > kManyGathers)
    out.push_back(
        text_of("scattered loads: %.0f %% of the loads take each lane from an address of its own; "
                "another axis for the lanes",
                k.gather_share * 100));
  if (k.weight_passes > kManyPasses)
    out.push_back(
        text_of("more bytes than needed: the code loads each byte of its weights %.1f times; larger "
                "tiles in registers",
                k.weight_passes));
  if (k.float_passes > kRepeats)
    out.push_back(
        text_of("recomputation: the code does %.1f times the floating-point operations of the "
                "formula; what several tasks or workers need is computed by each: a kernel or a loop of its own for it",
                k.float_passes));
  if (out.empty() && arithmetic.share >= 0 && std::max(memory, arithmetic.share) < kFarBelow)
    out.push_back(
        text_of("far below both rooflines: %.0f %% of the memory bandwidth, %.0f %% of the "
                "arithmetic (%s); look at its assembly with --kernel",
                memory * 100, arithmetic.share * 100, arithmetic.kind));
  return out;
}

}  // namespace smelt
