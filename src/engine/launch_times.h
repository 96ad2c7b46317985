// What each kernel has cost so far, from clocks that the workers read between launches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smelt {

class LaunchTimes {
 public:
  // Forgets what was counted. `launches`: of the longest plan. `workers`: those of which arrivals are wanted.
  void start(int kernels, size_t launches, size_t workers);
  bool started() const { return !clocks_.empty(); }

  // Where the workers write the times of a plan of so many launches; none before start().
  std::span<int64_t> clocks(size_t launches);
  // The same for RunOptions::arrivals_ns.
  std::span<int64_t> arrivals(size_t launches);
  // What a launch does.
  struct Work {
    double bytes = 0, operations = 0;
  };
  // Counts a replay. `kernels` and `work`: of each launch; `work` may be empty.
  void add(std::span<const int> kernels, std::span<const int64_t> clocks, std::span<const Work> work = {});

  struct Kernel {
    int64_t calls = 0;
    double seconds = 0;
    double bytes = 0, operations = 0;  // of the replays that came with their work
  };
  std::span<const Kernel> kernels() const { return kernels_; }  // by kernel number

 private:
  std::vector<Kernel> kernels_;
  std::vector<int64_t> clocks_, arrivals_;
  size_t workers_ = 0;
};

}  // namespace smelt
