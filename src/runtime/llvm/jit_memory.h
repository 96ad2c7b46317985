// Where linked kernels lie: one reserved range of addresses, code in front, constants behind, filled batch by batch.
// For jit.cpp alone.
#pragma once

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include <cstddef>
#include <vector>

namespace smelt {

// A range of reserved addresses that fills up from the front. Pages are first unusable, then
// writable while a batch is linked into them, then sealed for good.
class Region {
 public:
  Region(char* base, size_t size, int sealed_protection)
      : base_(base), size_(size), sealed_protection_(sealed_protection) {}

  char* take(size_t bytes, size_t alignment);  // writable memory, or nullptr if the range is full
  void seal();
  size_t payload() const { return payload_; }  // bytes taken

 private:
  char* base_;
  size_t size_;
  int sealed_protection_;
  size_t used_ = 0, open_end_ = 0, sealed_end_ = 0, payload_ = 0;
};

// Code in front, constants behind: both within reach of 32-bit relative addresses.
class ReservedRange {
 public:
  ReservedRange();
  ~ReservedRange();
  ReservedRange(const ReservedRange&) = delete;
  ReservedRange& operator=(const ReservedRange&) = delete;

  explicit operator bool() const { return base_ != nullptr; }  // false: the system grants none
  Region code() const;
  Region data() const;

 private:
  char* base_ = nullptr;
  size_t size_ = 0;
};

// Places what JITLink links. Objects lie side by side, not on pages of their own; protection
// changes once per batch (seal), which is sound because nothing runs before link() has returned.
// Nothing is given back before the end.
class BatchMemory : public llvm::jitlink::JITLinkMemoryManager {
 public:
  BatchMemory(Region code, Region data) : code_(code), data_(data) {}

  void allocate(const llvm::jitlink::JITLinkDylib*, llvm::jitlink::LinkGraph& graph,
                OnAllocatedFunction on_allocated) override;
  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction on_deallocated) override;
  using JITLinkMemoryManager::allocate;
  using JITLinkMemoryManager::deallocate;

  void seal() {
    code_.seal();
    data_.seal();
  }
  size_t code_bytes() const { return code_.payload(); }
  size_t data_bytes() const { return data_.payload(); }

 private:
  Region code_, data_;
};

}  // namespace smelt
