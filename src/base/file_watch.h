// FileWatch: whether files that are mapped are still the ones that they were. What a program computes from one that was
// changed, cut or replaced is not to be trusted.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace smelt {

class FileWatch {
 public:
  struct File {
    std::string path;
    uint64_t bytes = 0;  // that were mapped
  };
  // How they are now is how they should be. They are looked at once in `every`, when somebody asks.
  explicit FileWatch(std::span<const File> files, std::chrono::milliseconds every = std::chrono::milliseconds(200));

  // "PATH: became shorter while it was in use; ..." of the first file of which that is so, or which was changed, or
  // whose path leads to another file; empty: of none. One that was removed is still there for those who use it.
  // Thread-safe.
  std::string problem();

 private:
  struct State {
    uint64_t device = 0, inode = 0, bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;  // of the last change
    bool operator==(const State&) const = default;
  };
  struct Watched {
    File file;
    std::optional<State> state;
  };
  static std::optional<State> state_of(const std::string& path);
  static std::string problem_of(const Watched& watched);

  std::vector<Watched> files_;
  const std::chrono::milliseconds every_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_ = {};
  std::string problem_;
};

}  // namespace smelt
