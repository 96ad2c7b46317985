#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/ensure.h"
#include "runtime/target.h"
#include "runtime/workers.h"

namespace smelt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t page_size() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

size_t up_to(size_t value, size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// nullptr if the system has no such memory.
std::byte* map_pages(size_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// A mapping that begins on a huge page, so that all of it can be huge pages.
std::byte* map_huge(size_t bytes) {
  std::byte* memory = map_pages(bytes + kHugePage, PROT_READ | PROT_WRITE);
  if (!memory) return nullptr;
  size_t front =
      up_to(reinterpret_cast<uintptr_t>(memory), kHugePage) - reinterpret_cast<uintptr_t>(memory);
  if (front > 0) ::munmap(memory, front);
  if (front < kHugePage) ::munmap(memory + front + bytes, kHugePage - front);
  ::madvise(memory + front, bytes, MADV_HUGEPAGE);  // advice: no matter if refused
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

std::byte* Arena::take(size_t bytes) {
  ENSURE(padded(bytes) <= size() - used_, "the arena's size was planned too small");
  std::byte* piece = buffer_.data() + used_;
  used_ += padded(bytes);
  return piece;
}

GuardedBuffer::GuardedBuffer(size_t bytes, Flush flush) : size_(bytes) {
  size_t inside = std::max(up_to(bytes, page_size()), page_size());
  mapped_ = inside + 2 * page_size();
  std::byte* memory = map_pages(mapped_, PROT_NONE);
  ENSURE(memory, "no memory for a guarded buffer");
  mapping_ = memory;
  std::byte* first = memory + page_size();
  ENSURE(::mprotect(first, inside, PROT_READ | PROT_WRITE) == 0,
         "a guarded buffer cannot be opened");
  data_ = flush == Flush::begin ? first : first + (inside - bytes);
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) ::munmap(mapping_, mapped_);
}

namespace {

// A vector of one cache line; the compiler splits it into the registers that there are.
using Line = uint64_t __attribute__((vector_size(64)));

// A kernel like any other, so that the same pinned threads read as they will later. symbols[0]:
// bytes of buffers[0]. buffers[1] takes one sum per worker, which keeps the reads from being
// optimised away.
[[gnu::always_inline]] inline void sum_part(const void* const* buffers, const int64_t* symbols,
                                            int64_t part, int64_t parts) {
  const Line* lines = static_cast<const Line*>(buffers[0]);
  int64_t pairs = symbols[0] / (2 * static_cast<int64_t>(sizeof(Line)));
  Line even = {}, odd = {};
  for (int64_t i = pairs * part / parts, end = pairs * (part + 1) / parts; i < end; ++i) {
    even += lines[2 * i];
    odd += lines[2 * i + 1];
  }
  even += odd;
  uint64_t total = 0;
  for (int i = 0; i < 8; ++i) total += even[i];
  static_cast<uint64_t*>(const_cast<void*>(buffers[1]))[part * 8] = total;
}

void read_kernel(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts) {
  sum_part(buffers, symbols, part, parts);
}

#if defined(__x86_64__)
// The same in registers of a whole line: one core reads about 15 % more with it.
[[gnu::target("avx512f")]] void read_kernel_avx512(const void* const* buffers,
                                                   const int64_t* symbols, int64_t part,
                                                   int64_t parts) {
  sum_part(buffers, symbols, part, parts);
}
KernelEntry best_read_kernel() { return host_target().avx512 ? read_kernel_avx512 : read_kernel; }
#else
KernelEntry best_read_kernel() { return read_kernel; }
#endif

// Each worker touches its own part first, so that on several sockets the pages lie near their
// reader.
void touch_kernel(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts) {
  std::byte* bytes = static_cast<std::byte*>(const_cast<void*>(buffers[0]));
  int64_t lines = symbols[0] / 64;
  int64_t begin = lines * part / parts * 64, end = lines * (part + 1) / parts * 64;
  std::memset(bytes + begin, 1, end - begin);
}

}  // namespace

double read_bandwidth(Workers& workers, size_t bytes) {
  Result<Buffer> buffer = Buffer::allocate(bytes);
  if (!buffer) return 0;
  std::vector<uint64_t> sums(static_cast<size_t>(workers.count()) * 8);
  const void* buffers[] = {buffer->data(), sums.data()};
  const int64_t symbols[] = {static_cast<int64_t>(bytes)};
  const Launch touch[] = {{touch_kernel, buffers}};
  const Launch read[] = {{best_read_kernel(), buffers}};
  workers.run(touch, symbols);
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    int64_t times[2];
    workers.run(read, symbols, {.times_ns = times});
    best = std::max(best, static_cast<double>(bytes) /
                              static_cast<double>(std::max<int64_t>(1, times[1] - times[0])));
  }
  return best;
}

}  // namespace smelt
