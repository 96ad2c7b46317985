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

#include "runtime/kernel_entry.h"

namespace smelt {

struct Launch {
  KernelEntry entry = nullptr;
  const void* const* buffers = nullptr;  // lives at least as long as the run
  // Parts for each worker. With one, worker i has part i. With more, workers take the next part as they become free:
  // for kernels whose parts differ in work, or last long enough for one core to fall behind.
  int shares = 1;
};

class Workers {
 public:
  // `count` >= 1 threads in all: the caller of run() is worker 0, so count - 1 are started. They
  // (and the caller, during a run) are pinned to a core each if there are exactly as many cores as
  // workers; with fewer workers two processes would pin to the same cores and leave others idle,
  // and with more workers than cores they give way to each other instead of spinning.
  explicit Workers(int count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const;

  struct RunOptions {
    // When it becomes true the run ends after the launch under way.
    const std::atomic<bool>* cancel = nullptr;
    // Empty, or launches.size() + 1 entries: worker 0's clock in nanoseconds at the start and after
    // each launch's barrier, so that times_ns[i + 1] - times_ns[i] is what launch i cost.
    std::span<int64_t> times_ns = {};
  };

  // Runs all launches in order and returns when the last is complete. False if cancelled before
  // that. One run at a time; `symbols` is handed to every kernel.
  bool run(std::span<const Launch> launches, const int64_t* symbols, const RunOptions& options);
  bool run(std::span<const Launch> launches, const int64_t* symbols) {
    return run(launches, symbols, {});
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
