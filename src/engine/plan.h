// Plan: the launches of one forward pass, captured once and replayed for every token or chunk.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "engine/compile.h"
#include "model/segment.h"
#include "runtime/device.h"

namespace smelt {

// Where a segment's slots lie in memory.
using Resolve = std::function<const void*(const SlotBinding& slot)>;

class Plan {
 public:
  // Appends the launches of a compiled segment. Temps lie in `arena` (segment.schedule.arena_bytes).
  // REQUIRES: the compiler has finished; all memory outlives the plan; slots that a kernel writes overlap with no other
  // of its buffers, which is checked.
  void append(const Compiler& compiler, int segment, const std::vector<SlotBinding>& slots, const Resolve& resolve,
              void* arena);

  // Makes it ready to run, once all is appended.
  Status capture(Device& device);
  // Begins a run of it, see Device::start(). An Error if a symbol is outside of the bounds that its kernels were made
  // for. REQUIRES: captured.
  Result<uint64_t> start(std::span<const int64_t> symbols, const RunOptions& options = {}) const;
  // The same, and waits until it is done.
  Status run(std::span<const int64_t> symbols, const RunOptions& options = {}) const;

  // Of a device that chooses how many run the plan: how many do now. Else 0. REQUIRES: captured.
  int workers() const { return captured_->workers(); }
  std::span<const Launch> launches() const { return launches_; }
  // For each launch, its kernel's number in the compiler.
  std::span<const int> kernels() const { return kernels_; }

 private:
  // A launch value as kernels know it: index arithmetic is as wide as these bounds want it.
  struct Symbol {
    std::string name;
    int64_t min = std::numeric_limits<int64_t>::min(), max = std::numeric_limits<int64_t>::max();
  };
  void know_symbols(const Compiler& compiler, Ref tree);

  std::vector<Symbol> symbols_;  // in the order of run(); of those that kernels use
  std::vector<Launch> launches_;
  std::vector<int> kernels_;
  std::deque<std::vector<const void*>> pointers_;  // a deque: launches point into it
  Device* device_ = nullptr;
  std::unique_ptr<CapturedPlan> captured_;
};

}  // namespace smelt
