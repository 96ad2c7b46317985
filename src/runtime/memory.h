// Memory of the process: for plans (aligned, huge pages where the system grants them) and for tests (guard pages on
// both sides).
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/result.h"

namespace smelt {

// A mapping of its own, zeroed, page aligned. Two megabytes and more ask for huge pages.
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> allocate(size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0, mapped_ = 0;
};

// For tests: `bytes` of memory between two pages that nobody may touch. Generated code is invisible
// to sanitizers, so this is how reads and writes out of bounds are found. With Flush::end the last
// byte touches the page behind (data() is then aligned only as far as `bytes` is), with
// Flush::begin the first one the page before.
class GuardedBuffer {
 public:
  enum class Flush { begin, end };
  explicit GuardedBuffer(size_t bytes, Flush flush = Flush::end);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept { swap(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void swap(GuardedBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace smelt
