// What system_calls.h promises, for both of its implementations: included by a file for each, once `smelt` is the
// namespace in which that one lies, and SYSTEM its name.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/system_calls.h"
#include "support/temp_folder.h"

namespace {

struct Ends {
  Ends() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, both) == 0); }
  ~Ends() {
    for (int end : both)
      if (end >= 0) ::close(end);
  }
  int both[2];
};

}  // namespace

TEST_CASE(SYSTEM ": a socket is closed for programs that are started") {
  const int socket = smelt::open_socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(socket >= 0);
  CHECK((::fcntl(socket, F_GETFD) & FD_CLOEXEC) != 0);
  ::close(socket);
  CHECK(smelt::open_socket(-1, SOCK_STREAM, 0) < 0);
}

TEST_CASE(SYSTEM ": who has hung up is known, and who only writes has not") {
  Ends ends;
  CHECK(!smelt::has_hung_up(ends.both[0]));
  REQUIRE(::write(ends.both[1], "x", 1) == 1);
  CHECK(!smelt::has_hung_up(ends.both[0]));
  char taken = 0;
  REQUIRE(::read(ends.both[0], &taken, 1) == 1);
  CHECK(taken == 'x');
  REQUIRE(::shutdown(ends.both[1], SHUT_WR) == 0);
  CHECK(smelt::has_hung_up(ends.both[0]));
  ::close(std::exchange(ends.both[1], -1));
  CHECK(smelt::has_hung_up(ends.both[0]));
}

TEST_CASE(SYSTEM ": files in memory are empty at first, and several") {
  const int one = smelt::open_memory_file(), other = smelt::open_memory_file();
  REQUIRE(one >= 0);
  REQUIRE(other >= 0);
  CHECK((::fcntl(one, F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE(::ftruncate(one, 4096) == 0);
  CHECK(::pwrite(one, "abc", 3, 100) == 3);
  struct stat info;
  REQUIRE(::fstat(one, &info) == 0);
  CHECK(info.st_size == 4096);
  REQUIRE(::fstat(other, &info) == 0);
  CHECK(info.st_size == 0);
  ::close(one);
  ::close(other);
}

TEST_CASE(SYSTEM ": room for a file can be taken, or the system has no such thing") {
  const smelt::test::TempFolder folder;
  const int file = ::open((folder / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  CHECK(smelt::take_room(file, 1 << 16) == 0);
  ::close(file);
}

TEST_CASE(SYSTEM ": a file's time of change is that which was set") {
  const smelt::test::TempFolder folder;
  const int file = ::open((folder / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  const timespec times[] = {{.tv_sec = 5, .tv_nsec = 0}, {.tv_sec = 1234567, .tv_nsec = 890}};
  REQUIRE(::futimens(file, times) == 0);
  struct stat info;
  REQUIRE(::fstat(file, &info) == 0);
  CHECK(smelt::modified_at(info).tv_sec == 1234567);
  CHECK(smelt::modified_at(info).tv_nsec == 890);
  ::close(file);
}

// A child starts a child of its own and is gone: whoever holds the end of the pipe ends, too, although it would sleep.
TEST_CASE(SYSTEM ": who sleeps at a word is woken by its change, or when its time is over") {
  std::atomic<uint32_t> word{1};
  smelt::sleep_while(word, 2);  // it is another one already
  smelt::sleep_while(word, 1, std::chrono::milliseconds(1));
  std::thread other([&] {
    word = 2;
    smelt::wake_all(word);
  });
  while (word == 1) smelt::sleep_while(word, 1);
  other.join();
  CHECK(word == 2);
}

TEST_CASE(SYSTEM ": a child ends with the process that has started it") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t its_child = ::fork();
    if (its_child == 0) {
      ::close(ends[0]);
      smelt::end_with_parent();
      (void)!::write(ends[1], "x", 1);
      std::this_thread::sleep_for(std::chrono::seconds(60));
      ::_exit(0);
    }
    char begun = 0;
    (void)!::read(ends[0], &begun, 1);
    ::_exit(begun == 'x' ? 0 : 1);
  }
  REQUIRE(child > 0);
  ::close(ends[1]);
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const auto begin = std::chrono::steady_clock::now();
  char more = 0;
  CHECK(::read(ends[0], &more, 1) == 0);  // nobody is left to write
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  ::close(ends[0]);
}
