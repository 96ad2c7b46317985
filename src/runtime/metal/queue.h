// MetalQueue: runs that were begun and are not known to be done, and what the host writes in the meantime.
//
// A write comes behind the runs that were begun before it, and before those that are begun after it. Where no run is
// under way the host writes into the memory itself, which it shares with the GPU. Otherwise the bytes wait beside it,
// and the next run begins with copying them: so what one run reads is not changed by what is prepared for the next.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/metal/buffers.h"

namespace smelt {

class MetalQueue {
 public:
  // REQUIRES: GPU and buffers outlive this.
  MetalQueue(MetalGpu& gpu, const MetalBuffers& buffers) : gpu_(gpu), buffers_(buffers) {}
  ~MetalQueue();
  MetalQueue(const MetalQueue&) = delete;
  MetalQueue& operator=(const MetalQueue&) = delete;

  // Before all else.
  Status prepare();

  // One thread at a time calls these three.
  //
  // REQUIRES: `to` is in `buffers`, or `place` says where it is.
  Status write(std::byte* to, std::span<const std::byte> bytes, std::optional<MetalBuffers::Place> place = {});
  // One behind the other, behind all before. The number of the last one, for wait().
  Result<uint64_t> start(std::span<const MetalCommands> commands);
  // Until nothing is under way, and all that was written is there. An Error if a run that was under way failed.
  Status settle();

  // Until a run is done, and all before it. An Error if one of them failed; so do those that were begun behind it
  // before that was known, as they may have read what it did not write. Any thread, also beside the others.
  Status wait(uint64_t run);

 private:
  // Room for what is written while a run is under way: one is filled while a run reads the other.
  struct Staging {
    MetalMemory memory;
    size_t used = 0;
    uint64_t read_by = 0;  // the run
  };
  // What failed, and up to which run that matters.
  struct Failure {
    uint64_t first = 0, last = 0;
    Error error;
  };

  // Until a run is done. An Error if one was not known to be done, and failed.
  Status reach(uint64_t run);
  bool is_idle() const;
  uint64_t begun() const;
  Status outcome(uint64_t run) const;
  bool overlaps_pending(const MetalCopy& copy) const;
  void write_pending();
  Result<bool> stage(std::byte* to, std::span<const std::byte> bytes, const MetalBuffers::Place& place);

  MetalGpu& gpu_;
  const MetalBuffers& buffers_;
  Staging staging_[2];
  int filled_ = 0;                  // of them, the one for the next run
  std::vector<MetalCopy> pending_;  // what the next run begins with
  std::vector<std::byte*> to_;      // of each: where it goes, for the host

  std::mutex waiting_;        // one thread waits for the GPU
  mutable std::mutex state_;  // of what follows
  uint64_t begun_ = 0, done_ = 0;
  std::optional<Failure> failure_;  // the last one
};

}  // namespace smelt
