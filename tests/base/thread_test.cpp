#include "base/thread.h"

#include <doctest/doctest.h>

#include <atomic>
#include <system_error>
#include <vector>

#include "base/stack.h"

using namespace smelt;

TEST_CASE("a thread has the stack that it was given, or a larger one that another one has left") {
  for (const size_t bytes : {size_t{256} << 10, size_t{2} << 20, Thread::kStackBytes}) {
    size_t left = 0, deeper = 0;
    Thread thread(
        [&] {
          left = stack_left();
          volatile char room[64 << 10];
          room[0] = 1;
          const auto look = [&]() __attribute__((noinline)) { return stack_left() + static_cast<size_t>(room[0] - 1); };
          deeper = look();
        },
        bytes);
    CHECK(thread.joinable());
    thread.join();
    CHECK_FALSE(thread.joinable());
    CHECK(left > bytes - (128 << 10));  // what the system keeps of it, and the room itself
    CHECK(deeper < left);
  }
}

TEST_CASE("a thread is done when it is destroyed, wherever it was moved to") {
  std::atomic<int> done = 0;
  {
    std::vector<Thread> threads;
    for (int i = 0; i < 5; ++i) threads.emplace_back([&done] { ++done; });
    Thread moved = std::move(threads.front());
    CHECK_FALSE(threads.front().joinable());
    threads.front() = std::move(moved);
  }
  CHECK(done == 5);
}

TEST_CASE("a thread that the system refuses is an exception, as it is of std::thread") {
  CHECK_THROWS_AS(Thread([] {}, size_t{1} << 60), std::system_error);
}
