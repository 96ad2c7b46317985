// MetalBuffers: which buffer an address of the host lies in, and where the GPU has it. Addresses are what the engine
// deals in; kernels get those of the GPU.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "runtime/metal/gpu.h"

namespace smelt {

class MetalBuffers {
 public:
  // REQUIRES: the GPU outlives this.
  explicit MetalBuffers(MetalGpu& gpu) : gpu_(gpu) {}
  ~MetalBuffers();
  MetalBuffers(const MetalBuffers&) = delete;
  MetalBuffers& operator=(const MetalBuffers&) = delete;

  // Thread-safe, all.
  Result<void*> allocate(size_t bytes, std::string_view what);
  void release(void* memory);

  // Memory of the process that kernels read: a mapped file is taken where it lies, in pieces of what a buffer may have;
  // what does not begin at a page is copied. REQUIRES: it does not change, and stays until withdraw().
  Status admit(std::span<const std::byte> memory);
  void withdraw(std::span<const std::byte> memory);

  struct Place {
    MetalBuffer buffer = nullptr;
    size_t offset = 0;  // in it
    uint64_t gpu = 0;
  };
  // Nothing where the address is none of theirs.
  std::optional<Place> find(const void* address) const;

 private:
  struct Piece {
    MetalMemory memory;
    size_t bytes = 0;
  };
  // Of admitted memory: how often it was, and where its pieces begin.
  struct Admitted {
    int times = 0;
    std::vector<const std::byte*> pieces;
  };

  Status copy(std::span<const std::byte> memory);
  Status adopt(std::span<const std::byte> pages, std::vector<const std::byte*>& pieces);
  void forget(const std::vector<const std::byte*>& pieces);

  MetalGpu& gpu_;
  mutable std::mutex mutex_;                       // of what follows
  std::map<const std::byte*, Piece> pieces_;       // by where they begin for the host
  std::map<const std::byte*, Admitted> admitted_;  // by where it begins
};

}  // namespace smelt
