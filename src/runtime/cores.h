// The cores of this machine, and threads that stay on one: linux/cores.cpp, apple/cores.cpp.
#pragma once

#include <pthread.h>

#include <vector>

namespace smelt {

// The cores that this process may run on: for each the number of one of its CPUs (hardware threads), those beside one
// memory (memory_nodes.h) together, as neighbouring workers read neighbouring rows of a weight. On Apple's systems
// those that are made for speed; a core that saves energy would be waited for at each barrier.
std::vector<int> core_cpus();

// A wish: unpinned works as well. Apple's systems grant none.
void pin_to(pthread_t thread, int cpu);

// Pins the calling thread while it lives; not if `cpu` is below zero. Not for longer, because threads inherit this:
// what the program starts between two runs (compilation, a server) is not to end up on one core. Without it the caller,
// on a busy machine, is found again and again on the core of a pinned worker, and a barrier costs 30 us.
class PinnedHere {
 public:
  explicit PinnedHere(int cpu);
  ~PinnedHere();
  PinnedHere(const PinnedHere&) = delete;
  PinnedHere& operator=(const PinnedHere&) = delete;

 private:
  std::vector<int> before_;  // CPUs that it might run on; empty: it is not pinned
};

}  // namespace smelt
