#include "app/failures.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <new>
#include <string_view>

#include "app/command.h"
#include "base/mapped_files.h"
#include "base/new_file.h"

namespace smelt {
namespace {

// Neither allocates nor locks.
void say(std::string_view words) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, words.data(), words.size());
}

[[noreturn]] void say_and_end(std::string_view words) {
  say(words);
  ::_exit(kExitWorld);
}

void on_memory_exhausted() {
  remove_unfinished_files();
  say_and_end(
      "smelt: no memory is left, or a limit on it is reached (ulimit -v); use a smaller context (-c) or a smaller "
      "model, or close other programs\n");
}

std::atomic_flag is_ending = ATOMIC_FLAG_INIT;
std::atomic<bool> outlives_files = false;

void on_bus_error(int, siginfo_t* info, void*) {
  const int error = errno;
  if (outlives_files && lose_file(info->si_addr)) {
    errno = error;
    return;
  }
  // Workers meet the end of a file together; the first one speaks for all.
  while (is_ending.test_and_set()) ::pause();
  const std::string_view path = mapped_path(info->si_addr);
  say("smelt: ");
  say(path.empty() ? "a file that is mapped" : path);
  remove_unfinished_files();
  say_and_end(
      ": became shorter while it was in use, or its disk cannot be read; leave a model file alone while it is in use, "
      "and replace it by a rename\n");
}

}  // namespace

void explain_sudden_failures() {
  remove_unfinished_files();  // of which there are none: what it needs is made while there is memory
  std::set_new_handler(on_memory_exhausted);
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void outlive_lost_files() { outlives_files = true; }

}  // namespace smelt
