// Runs the program as a user would: arguments, standard input, environment; what it prints and how it ends.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace smelt::test {

struct Outcome {
  int exit_code = -1;  // 128 + the signal, where one ended it
  std::string out;
  std::string err;
};

// A folder for this run of the tests, gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "smelt-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline const TemporaryFolder& scratch() {
  static const TemporaryFolder folder;
  return folder;
}

struct RunOptions {
  std::string input;                      // on standard input
  std::vector<std::string> environment;   // "DEBUG=1"
  size_t interrupt_after = SIZE_MAX;      // bytes on standard output, then Ctrl-C
  std::function<bool()> interrupt_when;   // asked every millisecond; once it is true, Ctrl-C
  std::function<void()> at_first_output;  // called once, when something has come on standard output
  uint64_t address_space = 0;             // bytes that it may map (ulimit -v); 0: as many as it likes
  uint64_t stack = 0;                     // bytes of the stack of its first thread (ulimit -s); 0: as here
};

namespace detail {

// Kernels compiled by one test serve the others, and the user's cache stays as it is. Not asked for in a child, which
// would make a folder of its own and leave it.
inline const std::string& shared_cache() {
  static const std::string path = scratch().file("cache");
  return path;
}

inline void run_child(const std::vector<std::string>& arguments, const RunOptions& options, const std::string& cache,
                      const int in[2], const int out[2], const int err[2]) {
  ::dup2(in[0], 0);
  ::dup2(out[1], 1);
  ::dup2(err[1], 2);
  ::signal(SIGPIPE, SIG_DFL);
  ::setenv("SMELT_CACHE", cache.c_str(), 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);  // texts are compared by their bits: a GPU has others
  for (const char* name : {"DEBUG", "DUMP", "NOOPT", "VERIFY"}) ::unsetenv(name);
  if (const rlimit limit{options.address_space, options.address_space}; options.address_space)
    ::setrlimit(RLIMIT_AS, &limit);
  if (const rlimit limit{options.stack, options.stack}; options.stack) ::setrlimit(RLIMIT_STACK, &limit);
  for (const std::string& entry : options.environment) {
    const size_t equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv = {const_cast<char*>("smelt")};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(SMELT_BINARY, argv.data());
  ::_exit(127);
}

// Feeds and reads until the child has closed both of its outputs.
inline void talk(pid_t child, const RunOptions& options, int in, int out, int err, Outcome& outcome) {
  size_t fed = 0;
  bool signalled = false;
  char buffer[65536];
  pollfd ends[] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {in, POLLOUT, 0}};
  std::string* texts[] = {&outcome.out, &outcome.err};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (fed == options.input.size() && ends[2].fd >= 0) ::close(std::exchange(ends[2].fd, -1));
    const bool asks = options.interrupt_when && !signalled;
    if (::poll(ends, 3, asks ? 1 : -1) == 0 && options.interrupt_when()) {
      ::kill(child, SIGINT);
      signalled = true;
    }
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || !ends[i].revents) continue;
      const ssize_t got = ::read(ends[i].fd, buffer, sizeof buffer);
      if (got > 0) texts[i]->append(buffer, got);
      if (got > 0 && i == 0 && texts[0]->size() == static_cast<size_t>(got) && options.at_first_output)
        options.at_first_output();
      if (got <= 0) ::close(std::exchange(ends[i].fd, -1));
    }
    if (ends[2].fd >= 0 && ends[2].revents) {
      const ssize_t put = ::write(ends[2].fd, options.input.data() + fed, options.input.size() - fed);
      fed = put > 0 ? fed + put : options.input.size();
    }
    if (!signalled && outcome.out.size() > options.interrupt_after) {
      ::kill(child, SIGINT);
      signalled = true;
    }
  }
  if (ends[2].fd >= 0) ::close(ends[2].fd);
}

}  // namespace detail

// Most tests run on one core, so that two test programs get along on two: workers wait by spinning.
inline std::vector<std::string> on_one_thread(std::vector<std::string> arguments) {
  if (std::find(arguments.begin(), arguments.end(), "-t") == arguments.end())
    arguments.insert(arguments.end(), {"-t", "1"});
  return arguments;
}

inline Outcome smelt(const std::vector<std::string>& arguments, const RunOptions& options = {}) {
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) || ::pipe2(out, O_CLOEXEC) || ::pipe2(err, O_CLOEXEC)) std::abort();
  const std::string& cache = detail::shared_cache();
  ::signal(SIGPIPE, SIG_IGN);  // a program that refuses does not read its input
  const pid_t child = ::fork();
  if (child == 0) detail::run_child(arguments, options, cache, in, out, err);
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  Outcome outcome;
  detail::talk(child, options, in[1], out[0], err[0], outcome);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace smelt::test
