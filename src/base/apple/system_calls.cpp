#include "base/system_calls.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

namespace smelt {

int open_socket(int family, int type, int protocol) {
  const int socket = ::socket(family, type, protocol);
  if (socket >= 0) ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  return socket;
}

bool has_hung_up(int socket) {
  pollfd wanted{socket, POLLIN, 0};
  if (::poll(&wanted, 1, 0) <= 0) return false;
  char byte = 0;
  return (wanted.revents & POLLIN) == 0 || ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

// Memory that processes share has a name here, if only for a moment. shm_open() closes it with a program that is
// started.
int open_memory_file() {
  static std::atomic<int> number = 0;
  const std::string name = "/smelt." + std::to_string(::getpid()) + "." + std::to_string(number++);
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  if (file >= 0) ::shm_unlink(name.c_str());
  return file;
}

// Takes it behind what the file has already, and leaves its length as it is.
int take_room(int file, uint64_t bytes) {
  fstore_t wanted{F_ALLOCATEALL, F_PEOFPOSMODE, 0, static_cast<off_t>(bytes), 0};
  return ::fcntl(file, F_PREALLOCATE, &wanted) != 0 && errno == ENOSPC ? ENOSPC : 0;
}

timespec modified_at(const struct stat& file) { return file.st_mtimespec; }

// What sleeps for a limited time at an address is not in all systems that this one is built for: it looks again soon.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds most) {
  constexpr std::chrono::nanoseconds kSoon = std::chrono::microseconds(50);
  if (most == kForever) return word.wait(seen);
  std::this_thread::sleep_for(std::min(most, kSoon));
}

void wake_all(std::atomic<uint32_t>& word) { word.notify_all(); }

// Nothing tells a process of that: it looks.
void end_with_parent() {
  std::thread([parent = ::getppid()] {
    while (::getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

}  // namespace smelt
