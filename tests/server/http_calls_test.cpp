// What a token costs the thread that talks to clients, in system calls: those of the server are counted on their way.
// Tools that check memory and threads have these names to themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SMELT_IS_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SMELT_IS_CHECKED 1
#endif
#endif
#if defined(__linux__) && !defined(SMELT_IS_CHECKED)

#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "server/http_client.h"

namespace {

struct Counts {
  std::atomic<int> waits = 0, sends = 0, others = 0;
};
thread_local Counts* counted = nullptr;  // where the calls of this thread are counted, if they are

void count(std::atomic<int> Counts::* kind) {
  if (counted) ++(counted->*kind);
}

}  // namespace

extern "C" {
int epoll_wait(int epoll, epoll_event* events, int most, int time) {
  count(&Counts::waits);
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, most, time, nullptr, 8));
}
ssize_t send(int socket, const void* data, size_t size, int flags) {
  count(&Counts::sends);
  return ::syscall(SYS_sendto, socket, data, size, flags, nullptr, 0);
}
ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  count(&Counts::sends);
  return ::syscall(SYS_sendmsg, socket, message, flags);
}
int epoll_ctl(int epoll, int what, int file, epoll_event* event) noexcept {
  count(&Counts::others);
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, what, file, event));
}
int timerfd_settime(int timer, int flags, const itimerspec* time, itimerspec* before) noexcept {
  count(&Counts::others);
  return static_cast<int>(::syscall(SYS_timerfd_settime, timer, flags, time, before));
}
}

using namespace smelt;

TEST_CASE("a token costs the thread of the server one wait and one send") {
  Counts counts;
  std::promise<std::shared_ptr<HttpReply>> asked;
  smelt::test::Running running([&](HttpRequest, std::shared_ptr<HttpReply> reply) {
    reply->begin({.type = "text/event-stream"});
    asked.set_value(std::move(reply));
  });
  smelt::test::Client client(running);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  auto reply = asked.get_future().get();
  client.read_until("\r\n\r\n");
  running.server->post([&] { counted = &counts; });
  constexpr int kTokens = 200;
  for (int i = 0; i < kTokens; ++i) {
    running.server->post([&] { reply->write("data: token\n\n"); });
    client.read_until("data: token\n\n\r\n");
  }
  running.server->post([&] {
    counted = nullptr;
    reply->end();
    reply = nullptr;
  });
  client.read_until("0\r\n\r\n");
  CHECK(counts.sends == kTokens);
  // And a timer now and then, where the machine is busy.
  CHECK(counts.waits < kTokens + kTokens / 10);
  CHECK(counts.others < kTokens / 10);
}

#endif
