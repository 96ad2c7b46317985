#include "base/system_calls.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace smelt {

int open_socket(int family, int type, int protocol) { return ::socket(family, type | SOCK_CLOEXEC, protocol); }

bool has_hung_up(int socket) {
  pollfd wanted{socket, POLLRDHUP, 0};
  return ::poll(&wanted, 1, 0) > 0;
}

int open_memory_file() { return ::memfd_create("weights", MFD_CLOEXEC); }

int take_room(int file, uint64_t bytes) {
  if (::fallocate(file, 0, 0, static_cast<off_t>(bytes)) == 0) return 0;
  return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
}

timespec modified_at(const struct stat& file) { return file.st_mtim; }

void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds most) {
  static_assert(sizeof word == sizeof seen);
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec time{most.count() / kSecond, most.count() % kSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, most == kForever ? nullptr : &time);
}

void wake_all(std::atomic<uint32_t>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX); }

void end_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace smelt
