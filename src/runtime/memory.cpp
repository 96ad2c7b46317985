#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/advice.h"
#include "base/ensure.h"

namespace smelt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t page_size() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

size_t up_to(size_t value, size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// nullptr if the system has no such memory.
std::byte* map_pages(size_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// A mapping that begins on a huge page, so that all of it can be huge pages.
std::byte* map_huge(size_t bytes) {
  std::byte* memory = map_pages(bytes + kHugePage, PROT_READ | PROT_WRITE);
  if (!memory) return nullptr;
  size_t front = up_to(reinterpret_cast<uintptr_t>(memory), kHugePage) - reinterpret_cast<uintptr_t>(memory);
  if (front > 0) ::munmap(memory, front);
  if (front < kHugePage) ::munmap(memory + front + bytes, kHugePage - front);
  advise({memory + front, bytes}, Advice::HugePages);  // no matter if refused
  return memory + front;
}

}  // namespace

Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  size_t rounded = up_to(bytes, page_size());
  std::byte* memory = nullptr;
  if (rounded >= bytes && bytes < SIZE_MAX / 2)
    memory = rounded >= kHugePage ? map_huge(rounded) : map_pages(rounded, PROT_READ | PROT_WRITE);
  if (!memory)
    return Error{"[memory] " + std::to_string(bytes) +
                 " bytes: the system has not that much; use a smaller context or "
                 "free memory"};
  buffer.data_ = memory;
  buffer.size_ = bytes;
  buffer.mapped_ = rounded;
  return buffer;
}

Buffer::~Buffer() {
  if (data_) ::munmap(data_, mapped_);
}

GuardedBuffer::GuardedBuffer(size_t bytes, Flush flush) : size_(bytes) {
  size_t inside = std::max(up_to(bytes, page_size()), page_size());
  mapped_ = inside + 2 * page_size();
  std::byte* memory = map_pages(mapped_, PROT_NONE);
  ENSURE(memory, "no memory for a guarded buffer");
  mapping_ = memory;
  std::byte* first = memory + page_size();
  ENSURE(::mprotect(first, inside, PROT_READ | PROT_WRITE) == 0, "a guarded buffer cannot be opened");
  data_ = flush == Flush::begin ? first : first + (inside - bytes);
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) ::munmap(mapping_, mapped_);
}

}  // namespace smelt
