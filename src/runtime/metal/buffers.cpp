#include "runtime/metal/buffers.h"

#include <algorithm>
#include <utility>

#include "base/ensure.h"
#include "base/progress.h"

namespace smelt {

MetalBuffers::~MetalBuffers() {
  for (const auto& [begin, piece] : pieces_) gpu_.release(piece.memory.buffer);
}

// With a byte more: then the address behind the end, too, lies in this buffer and not in the next one.
Result<void*> MetalBuffers::allocate(size_t bytes, std::string_view what) {
  const MetalProperties& p = gpu_.properties();
  if (bytes >= p.buffer_bytes)
    return Error{"[metal] " + p.title + ": " + bytes_text(bytes) + " for " + std::string(what) +
                 ": a buffer has at most " + bytes_text(p.buffer_bytes) +
                 "; use a smaller context (-c), or --no-repack for weights"};
  SMELT_TRY(memory, gpu_.allocate(bytes + 1, what));
  std::lock_guard lock(mutex_);
  pieces_[memory.host] = {memory, bytes + 1};
  return static_cast<void*>(memory.host);
}

void MetalBuffers::release(void* memory) {
  std::lock_guard lock(mutex_);
  ENSURE(pieces_.contains(static_cast<const std::byte*>(memory)), "memory that this device has not handed out");
  forget({static_cast<const std::byte*>(memory)});
}

Status MetalBuffers::admit(std::span<const std::byte> memory) {
  if (memory.empty()) return {};
  std::lock_guard lock(mutex_);
  Admitted& admitted = admitted_[memory.data()];
  if (admitted.times++ > 0) return {};
  const size_t page = gpu_.properties().page_bytes, bytes = (memory.size() + page - 1) / page * page;
  const bool is_pages = reinterpret_cast<uintptr_t>(memory.data()) % page == 0;
  Status done;
  if (is_pages) {
    done = adopt({memory.data(), bytes}, admitted.pieces);
  } else {
    done = copy(memory);
    if (done) admitted.pieces = {memory.data()};
  }
  if (!done) {
    forget(admitted.pieces);
    admitted_.erase(memory.data());
  }
  return done;
}

void MetalBuffers::withdraw(std::span<const std::byte> memory) {
  if (memory.empty()) return;
  std::lock_guard lock(mutex_);
  const auto found = admitted_.find(memory.data());
  ENSURE(found != admitted_.end(), "memory that was not admitted");
  if (--found->second.times > 0) return;
  forget(found->second.pieces);
  admitted_.erase(found);
}

Status MetalBuffers::copy(std::span<const std::byte> memory) {
  SMELT_TRY(copied, gpu_.allocate(memory.size(), "weights of the file"));
  std::copy(memory.begin(), memory.end(), copied.host);
  pieces_[memory.data()] = {copied, memory.size()};
  return {};
}

// Where one buffer is not enough, each begins in the middle of the one before: a tensor that begins in the first half
// of a buffer, as find() has it, ends in the same one, unless it is longer than that half.
Status MetalBuffers::adopt(std::span<const std::byte> pages, std::vector<const std::byte*>& pieces) {
  const MetalProperties& p = gpu_.properties();
  const size_t most = p.buffer_bytes / (2 * p.page_bytes) * (2 * p.page_bytes);
  for (size_t at = 0;; at += most / 2) {
    const std::span<const std::byte> piece = pages.subspan(at, std::min(most, pages.size() - at));
    SMELT_TRY(memory, gpu_.adopt(piece));
    pieces_[piece.data()] = {memory, piece.size()};
    pieces.push_back(piece.data());
    if (at + piece.size() == pages.size()) return {};
  }
}

// REQUIRES: the mutex is held.
void MetalBuffers::forget(const std::vector<const std::byte*>& pieces) {
  for (const std::byte* begin : pieces) {
    gpu_.release(pieces_.at(begin).memory.buffer);
    pieces_.erase(begin);
  }
}

std::optional<MetalBuffers::Place> MetalBuffers::find(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  std::lock_guard lock(mutex_);
  const auto behind = pieces_.upper_bound(at);
  if (behind == pieces_.begin()) return std::nullopt;
  const auto& [begin, piece] = *std::prev(behind);
  const auto offset = static_cast<size_t>(at - begin);
  if (offset >= piece.bytes) return std::nullopt;
  return Place{piece.memory.buffer, offset, piece.memory.gpu + offset};
}

}  // namespace smelt
