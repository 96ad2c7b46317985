// CudaPlan: launches as a device graph, which one call replays. Launch values lie in the memory of the device, so the
// graph is the same for every token.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/block_clock.h"
#include "runtime/cuda/context.h"
#include "runtime/device.h"

namespace smelt {

struct CudaExecutable : Executable {
  CuFunction function = nullptr;
  LaunchShape shape;
  unsigned blocks = 1;  // that a launch has: no more than there are tasks, or than the GPU holds at once
};

// Launch values.
struct CudaSymbols {
  static constexpr size_t kMost = 32;
  CuAddress device = 0;
};

class CudaPlan : public CapturedPlan {
 public:
  // REQUIRES: the calling thread has entered the context, here and in what follows; context and symbols outlive this.
  static Result<std::unique_ptr<CudaPlan>> capture(const CudaContext& context, const CudaSymbols& symbols,
                                                   std::span<const Launch> launches);
  ~CudaPlan() override;

  // Begins it; CudaContext::wait() waits for the end.
  Status start() const;
  // The same, and returns when all is done, with what the clocks of the blocks say: RunOptions of runtime/device.h.
  // `arrivals_ns` is by multiprocessor.
  Status run_timed(std::span<int64_t> times_ns, std::span<int64_t> arrivals_ns) const;

 private:
  struct Call {
    const CudaExecutable* kernel = nullptr;
    unsigned blocks = 1;
    std::vector<CuAddress> values;  // of the parameters but the last, the clocks
    std::vector<void*> parameters;  // their addresses
  };

  CudaPlan(const CudaContext& context, const CudaSymbols& symbols) : context_(context), symbols_(symbols) {}
  Status add(const Call& call, CuAddress clocks) const;
  // `clocks`: of all blocks of all launches, or none.
  Result<CuGraphExec> make_graph(CuAddress clocks) const;
  Status prepare_clocks() const;
  Status read_clocks(std::span<BlockClock> clocks) const;  // of a run

  const CudaContext& context_;
  const CudaSymbols symbols_;
  std::vector<Call> calls_;
  CuGraphExec graph_ = nullptr;
  size_t blocks_ = 0;  // of all launches
  // From the first run_timed() on: the same launches, whose blocks write down their times.
  mutable CuGraphExec timed_graph_ = nullptr;
  mutable CuAddress clocks_ = 0;
};

}  // namespace smelt
