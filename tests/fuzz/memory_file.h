// A file without a disk, for targets whose readers take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace smelt::test {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents) : fd_(memfd_create("fuzz", 0)) {
    if (fd_ < 0 || write(fd_, contents.data(), contents.size()) != static_cast<ssize_t>(contents.size())) std::abort();
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace smelt::test
