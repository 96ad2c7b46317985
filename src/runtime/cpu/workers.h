// Workers: the threads that run a plan. A plan is a list of launches; every worker runs every
// launch with its part of it, and a barrier stands between two launches. Within a run nothing is
// allocated and no system call is made unless a worker waits unusually long; between runs the
// threads spin briefly and then sleep.
//
// Measured on two cores of a Zen 4 VM at 2.6 GHz: an empty launch and its barrier take 0.20 us with
// 2 workers (2 ns with one); starting a run takes about 6 us with the workers awake and 50 us when
// they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/machine.h"
#include "runtime/cpu/kernel_entry.h"
#include "runtime/device.h"

namespace smelt {

// As Launch of runtime/device.h.
struct CpuLaunch {
  KernelEntry entry = nullptr;
  const void* const* buffers = nullptr;  // lives at least as long as the run
  int shares = 1;
  int parts = 0;
  bool half_is_fixed = false;
};

class Workers {
 public:
  // `count` >= 1 threads in all: the caller of run() is worker 0, so count - 1 are started. They
  // (and the caller, during a run) are pinned to a core each if there are exactly as many cores as
  // workers; with fewer workers two processes would pin to the same cores and leave others idle,
  // and with more workers than cores they give way to each other instead of spinning.
  // Where the system gives fewer threads, there are fewer.
  explicit Workers(int count, int64_t scratch_bytes = Machine().block_memory_bytes);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const;

  // Runs all launches in order and returns when the last is complete. False if cancelled before that: the run ends
  // after the launch under way. The times are worker 0's, behind each barrier. One run at a time; `symbols` is handed
  // to every kernel, and each worker has scratch memory of its own.
  // `active`: how many of the workers take part, the first ones; 0: all. REQUIRES: all do where times are taken.
  bool run(std::span<const CpuLaunch> launches, const int64_t* symbols, const RunOptions& options, int active = 0);
  bool run(std::span<const CpuLaunch> launches, const int64_t* symbols) { return run(launches, symbols, {}); }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
