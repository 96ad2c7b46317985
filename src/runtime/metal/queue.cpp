#include "runtime/metal/queue.h"

#include <algorithm>

#include "base/ensure.h"

namespace smelt {
namespace {

// The inputs of a run, with page tables of many sequences. What is longer waits until nothing is under way.
constexpr size_t kStagingBytes = size_t{1} << 20;

}  // namespace

Status MetalQueue::prepare() {
  for (Staging& staging : staging_) {
    SMELT_TRY(memory, gpu_.allocate(kStagingBytes, "inputs of the next run"));
    staging.memory = memory;
  }
  return {};
}

MetalQueue::~MetalQueue() {
  (void)settle();
  for (const Staging& staging : staging_)
    if (staging.memory.buffer) gpu_.release(staging.memory.buffer);
}

bool MetalQueue::is_idle() const {
  std::lock_guard lock(state_);
  return done_ == begun_;
}

uint64_t MetalQueue::begun() const {
  std::lock_guard lock(state_);
  return begun_;
}

Status MetalQueue::write(std::byte* to, std::span<const std::byte> bytes, std::optional<MetalBuffers::Place> place) {
  if (!is_idle()) {
    if (!place) place = buffers_.find(to);
    ENSURE(place.has_value(), "memory that the GPU does not see");
    SMELT_TRY(staged, stage(to, bytes, *place));
    if (staged) return {};
  }
  SMELT_CHECK(settle());
  std::copy(bytes.begin(), bytes.end(), to);
  return {};
}

// False where it does not fit, or would meet what is there already: then order is kept by waiting.
Result<bool> MetalQueue::stage(std::byte* to, std::span<const std::byte> bytes, const MetalBuffers::Place& place) {
  Staging& staging = staging_[filled_];
  if (pending_.empty()) {
    SMELT_CHECK(reach(staging.read_by));
    staging.used = 0;
  }
  const MetalCopy copy{staging.memory.buffer, staging.used, place.buffer, place.offset, bytes.size()};
  const bool in_units = bytes.size() % kMetalUnit == 0 && place.offset % kMetalUnit == 0;
  if (!in_units || staging.used + bytes.size() > kStagingBytes || overlaps_pending(copy)) return false;
  std::copy(bytes.begin(), bytes.end(), staging.memory.host + staging.used);
  staging.used += bytes.size();
  pending_.push_back(copy);
  to_.push_back(to);
  return true;
}

bool MetalQueue::overlaps_pending(const MetalCopy& copy) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const MetalCopy& other) {
    return other.to == copy.to && other.to_offset < copy.to_offset + copy.bytes &&
           copy.to_offset < other.to_offset + other.bytes;
  });
}

// REQUIRES: nothing is under way.
void MetalQueue::write_pending() {
  for (size_t i = 0; i < pending_.size(); ++i)
    std::copy_n(staging_[filled_].memory.host + pending_[i].from_offset, pending_[i].bytes, to_[i]);
  pending_.clear();
  to_.clear();
}

Result<uint64_t> MetalQueue::start(std::span<const MetalCommands> commands) {
  if (is_idle()) write_pending();
  for (MetalCommands c : commands) {
    SMELT_TRY(event, gpu_.start(c, pending_));
    if (!pending_.empty()) {
      staging_[filled_].read_by = event;
      filled_ = 1 - filled_;
      pending_.clear();
      to_.clear();
    }
    std::lock_guard lock(state_);
    begun_ = event;
  }
  return begun();
}

Status MetalQueue::settle() {
  const Status waited = reach(begun());
  write_pending();
  return waited;
}

// REQUIRES: the state's lock is held, the run is done.
Status MetalQueue::outcome(uint64_t run) const {
  const bool failed = failure_ && run >= failure_->first && run <= failure_->last;
  return failed ? Status(failure_->error) : Status();
}

Status MetalQueue::reach(uint64_t run) {
  std::lock_guard waiting(waiting_);
  {
    std::lock_guard lock(state_);
    if (run <= done_) return {};
  }
  Status waited = gpu_.wait(run);
  const uint64_t behind = begun();
  if (!waited) (void)gpu_.wait(behind);
  std::lock_guard lock(state_);
  if (!waited) failure_ = Failure{done_ + 1, behind, waited.error()};
  done_ = waited ? run : behind;
  return waited;
}

Status MetalQueue::wait(uint64_t run) {
  SMELT_CHECK(reach(run));
  std::lock_guard lock(state_);
  return outcome(run);
}

}  // namespace smelt
