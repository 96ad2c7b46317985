// MemoryChecks: what the threads of a launch do to memory, access by access: within its bounds, aligned, with a barrier
// between two threads of a threadgroup that meet at a byte, and not where another threadgroup meets them, as nothing
// orders those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/access_log.h"

namespace smelt {

struct MemoryRegion {
  std::string name;
  const std::byte* begin = nullptr;
  size_t bytes = 0;
  bool of_threadgroup = false;  // each one has its own
};

class MemoryChecks {
 public:
  // What threads may touch from now on, where nothing has been touched yet. Regions may be the same memory, but not
  // overlap otherwise.
  void set_regions(std::vector<MemoryRegion> regions);

  // What is wrong with an access, or empty.
  std::string read(const void* at, size_t bytes, int thread);
  std::string write(const void* at, size_t bytes, int thread);

  // Behind a barrier: what threads of this threadgroup have done before meets nobody.
  void barrier() { log_.barrier(); }
  // What follows is done by another threadgroup.
  void begin_threadgroup(int number) {
    log_.barrier();
    threadgroup_ = number;
  }

 private:
  // The region of an access; null if it is not inside of one, with the problem.
  const MemoryRegion* find(const std::byte* at, size_t bytes, std::string* problem);
  std::string access(const void* at, size_t bytes, int thread, bool writes);

  std::vector<MemoryRegion> regions_;  // by address
  size_t last_ = 0;                    // the one that was found last
  AccessLog log_;                      // of the threads of a threadgroup
  AccessLog groups_{"threadgroup"};
  int threadgroup_ = 0;
};

}  // namespace smelt
