#include "runtime/memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "runtime/cpu/read_bandwidth.h"
#include "runtime/cpu/workers.h"
#include "runtime/kernels.h"

using namespace smelt;

namespace {

// Does reading this byte kill the process?
bool is_fatal(const std::byte* address) {
  pid_t child = test::start_process([&] {
    ::signal(SIGSEGV, SIG_DFL);
    volatile std::byte value = *static_cast<const volatile std::byte*>(address);
    (void)value;
    return 0;
  });
  return test::end_of(child) != 0;
}

}  // namespace

TEST_CASE("a buffer is zeroed and aligned, small or large") {
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{4096}, size_t{5} << 20}) {
    auto buffer = Buffer::allocate(bytes);
    REQUIRE(buffer);
    CHECK(buffer->size() == bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer->data()) % 4096 == 0);
    CHECK(std::all_of(buffer->bytes().begin(), buffer->bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
    buffer->bytes().back() = std::byte{1};
  }
  CHECK(Buffer::allocate(0)->data() == nullptr);
}

TEST_CASE("a buffer that no machine has is an error with its size") {
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 4095, size_t{1} << 60}) {
    auto buffer = Buffer::allocate(bytes);
    REQUIRE_FALSE(buffer);
    CHECK(buffer.error().message.starts_with("[memory] " + std::to_string(bytes) + " bytes"));
  }
}

TEST_CASE("a guarded buffer may be used to its ends and not beyond") {
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{4096}, size_t{5000}}) {
    GuardedBuffer tail(bytes, GuardedBuffer::Flush::end);
    std::fill_n(tail.data(), bytes, std::byte{1});
    CHECK_FALSE(is_fatal(tail.data() + bytes - 1));
    CHECK(is_fatal(tail.data() + bytes));

    GuardedBuffer head(bytes, GuardedBuffer::Flush::begin);
    std::fill_n(head.data(), bytes, std::byte{1});
    CHECK_FALSE(is_fatal(head.data()));
    CHECK(is_fatal(head.data() - 1));
  }
  GuardedBuffer empty(0);
  CHECK(is_fatal(empty.data()));
}

TEST_CASE("reading has a bandwidth") {
  Workers workers(1);
  double gigabytes = read_bandwidth(workers, size_t{8} << 20);
  CHECK(gigabytes > 0.1);
  CHECK(gigabytes < 100000);
}
