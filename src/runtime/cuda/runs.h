// CudaRuns: runs that were begun on the stream of a GPU and are not known to be done. Each has pinned memory of its
// own: launch values, which are copied in front of it, and what it is read back into, behind it. So the host prepares a
// run while others are under way, and reads what one has left while the next one works.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "runtime/cuda/context.h"
#include "runtime/device.h"

namespace smelt {

class CudaRuns {
 public:
  static constexpr uint64_t kMost = 4;

  // REQUIRES: the calling thread has entered the context, here and in what follows; the context outlives this, and so
  // does the memory at `symbols`, which launch values go to.
  Status prepare(const CudaContext& context, CuAddress symbols);
  void release();

  // What is put on the stream between these two is a run; end() says which one.
  Status begin(std::span<const int64_t> symbols);
  Result<uint64_t> end(const ReadBack& read_back);
  // Until a run is done, and all before it.
  Status wait(uint64_t run);

 private:
  struct Run {
    std::byte* pinned = nullptr;  // launch values, then what is read back
    CuEvent done = nullptr;
    std::span<std::byte> to = {};
  };
  Run& of(uint64_t run) { return runs_[run % kMost]; }

  const CudaContext* context_ = nullptr;
  CuAddress symbols_ = 0;
  Run runs_[kMost];
  uint64_t begun_ = 0, done_ = 0;
};

}  // namespace smelt
