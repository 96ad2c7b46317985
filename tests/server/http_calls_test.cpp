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

namespace {

// A stream that has begun, and its client. Calls are counted from then on, until its end.
struct Stream {
  explicit Stream(const HttpLimits& limits = {})
      : running([this](HttpRequest, std::shared_ptr<HttpReply> to) { begin(std::move(to)); }, limits), client(running) {
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    asked.get_future().get();
    client.read_until("\r\n\r\n");
    running.server->post([this] { counted = &counts; });
  }
  void begin(std::shared_ptr<HttpReply> to) {
    reply = std::move(to);
    reply->begin({.type = "text/event-stream"});
    asked.set_value();
  }
  std::function<void()> token() {
    return [this] { reply->write(kToken); };
  }
  void end() {
    running.server->post([this] {
      counted = nullptr;
      reply->end();
      reply = nullptr;
    });
    client.read_until("0\r\n\r\n");
  }

  static constexpr const char* kToken = "data: token\n\n";
  Counts counts;
  std::promise<void> asked;
  std::shared_ptr<HttpReply> reply;
  smelt::test::Running running;
  smelt::test::Client client;
};

}  // namespace

TEST_CASE("a token costs the thread of the server one wait and one send") {
  Stream stream({.gather_time = std::chrono::microseconds(0)});
  constexpr int kTokens = 200;
  for (int i = 0; i < kTokens; ++i) {
    stream.running.server->post(stream.token());
    stream.client.read_until("data: token\n\n\r\n");
  }
  stream.end();
  const Counts& counts = stream.counts;
  CHECK(counts.sends == kTokens);
  // And a timer now and then, where the machine is busy.
  CHECK(counts.waits < kTokens + kTokens / 10);
  CHECK(counts.others < kTokens / 10);
}

TEST_CASE("tokens that follow each other closely are sent together, and go with what cannot wait") {
  Stream stream({.gather_time = std::chrono::hours(1)});
  HttpServer& server = *stream.running.server;
  const auto is_there = [&] { stream.client.read_until("data: token\n\n\r\n"); };
  server.post(stream.token());
  is_there();
  server.post(stream.token());  // the second one within the hour
  is_there();
  for (int i = 0; i < 50; ++i) server.post_soon(stream.token());
  server.post(stream.token());
  for (int i = 0; i < 51; ++i) is_there();
  stream.end();
  CHECK(stream.counts.sends == 3);
}

TEST_CASE("a token that nothing follows waits for the time of gathering and no longer") {
  Stream stream;
  for (int i = 0; i < 20; ++i) {
    stream.running.server->post_soon(stream.token());
    stream.client.read_until("data: token\n\n\r\n");
  }
  stream.end();
  CHECK(stream.counts.sends == 20);
}

#endif
