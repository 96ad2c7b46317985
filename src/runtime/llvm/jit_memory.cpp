#include "runtime/llvm/jit_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/ensure.h"

namespace smelt {
namespace {

size_t page_size() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

size_t up_to(size_t value, size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

struct InFlight : llvm::jitlink::JITLinkMemoryManager::InFlightAlloc {
  void finalize(OnFinalizedFunction on_finalized) override {
    // No state to find again.
    on_finalized(llvm::jitlink::JITLinkMemoryManager::FinalizedAlloc(llvm::orc::ExecutorAddr(1)));
  }
  void abandon(OnAbandonedFunction on_abandoned) override { on_abandoned(llvm::Error::success()); }
};

}  // namespace

char* Region::take(size_t bytes, size_t alignment) {
  size_t begin = up_to(used_, alignment), end = begin + bytes;
  if (end > size_) return nullptr;
  size_t open_end = up_to(end, page_size());
  if (open_end > open_end_) {
    if (::mprotect(base_ + open_end_, open_end - open_end_, PROT_READ | PROT_WRITE) != 0) return nullptr;
    open_end_ = open_end;
  }
  used_ = end;
  payload_ += bytes;
  return base_ + begin;
}

void Region::seal() {
  if (open_end_ == sealed_end_) return;
  char* begin = base_ + sealed_end_;
  size_t bytes = open_end_ - sealed_end_;
  __builtin___clear_cache(begin, begin + bytes);
  ENSURE(::mprotect(begin, bytes, sealed_protection_) == 0, "[jit] the system refuses to seal linked pages");
  used_ = sealed_end_ = open_end_;
}

ReservedRange::ReservedRange() {
  for (size_t size : {size_t{512} << 20, size_t{64} << 20}) {
    void* memory = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    base_ = static_cast<char*>(memory);
    size_ = size;
    return;
  }
}

ReservedRange::~ReservedRange() {
  if (base_) ::munmap(base_, size_);
}

Region ReservedRange::code() const { return {base_, size_ / 4 * 3, PROT_READ | PROT_EXEC}; }
Region ReservedRange::data() const { return {base_ + size_ / 4 * 3, size_ / 4, PROT_READ}; }

void BatchMemory::allocate(const llvm::jitlink::JITLinkDylib*, llvm::jitlink::LinkGraph& graph,
                           OnAllocatedFunction on_allocated) {
  llvm::jitlink::BasicLayout layout(graph);
  for (auto& [group, segment] : layout.segments()) {
    bool is_code = llvm::orc::toSysMemoryProtectionFlags(group.getMemProt()) & llvm::sys::Memory::MF_EXEC;
    size_t bytes = segment.ContentSize + segment.ZeroFillSize;
    char* memory = (is_code ? code_ : data_).take(bytes, std::max<size_t>(64, segment.Alignment.value()));
    if (!memory)
      return on_allocated(
          llvm::make_error<llvm::StringError>("no room left for kernels", llvm::inconvertibleErrorCode()));
    segment.WorkingMem = memory;
    segment.Addr = llvm::orc::ExecutorAddr::fromPtr(memory);
  }
  if (llvm::Error error = layout.apply()) return on_allocated(std::move(error));
  on_allocated(std::make_unique<InFlight>());
}

void BatchMemory::deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction on_deallocated) {
  for (FinalizedAlloc& allocation : allocations) allocation.release();
  on_deallocated(llvm::Error::success());
}

}  // namespace smelt
