// A search that nobody waits for ends: `kill -9` of the program that began it.
#include "engine/tune_child.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace smelt;

namespace {

// Says who it is, then searches until it is ended.
Result<TuneOutcome> endless_search(int say) {
  const pid_t self = ::getpid();
  [[maybe_unused]] const ssize_t put = ::write(say, &self, sizeof self);
  while (true) ::pause();
}

// Whether the other end of a pipe was closed by the death of all who had it, within 10 seconds.
bool closes(int fd) {
  ::alarm(10);
  char byte;
  const bool ended = ::read(fd, &byte, 1) == 0;
  ::alarm(0);
  return ended;
}

}  // namespace

TEST_CASE("a search ends with the program that waits for it, however that ends") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t program = ::fork();
  if (program == 0) {
    ::close(ends[0]);
    const auto outcome = in_child([&] { return endless_search(ends[1]); });
    ::_exit(outcome.ok());
  }
  ::close(ends[1]);
  pid_t search = 0;
  REQUIRE(::read(ends[0], &search, sizeof search) == sizeof search);
  CHECK(search != program);
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  CHECK(closes(ends[0]));
  ::close(ends[0]);
}
