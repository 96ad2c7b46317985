#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/mapped_files.h"
#include "base/new_file.h"

namespace smelt {
namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  int close() { return fd_ < 0 ? 0 : ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

Error file_error(const std::string& path, const char* doing) {
  return Error{"[file] " + path + ": cannot " + doing + ": " + std::strerror(errno)};
}

// O_NONBLOCK: a pipe given as a model must be an error, not a wait for a writer.
Result<uint64_t> open_size(const Descriptor& file, const std::string& path) {
  if (!file.ok()) {
    return Error{file_error(path, "open").message + "; check the path and its permissions"};
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0) return file_error(path, "read its size");
  if (S_ISDIR(info.st_mode)) return Error{"[file] " + path + ": this is a folder; give the path of a file"};
  if (!S_ISREG(info.st_mode))
    return Error{"[file] " + path + ": not a regular file; copy its contents to a file first"};
  return static_cast<uint64_t>(info.st_size);
}

Descriptor open_to_read(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) { return map(open_to_read(path).release(), path); }

Result<MappedFile> MappedFile::open_own(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat info;
  const bool is_own = !file.ok() ? errno != ELOOP
                                 : ::fstat(file.get(), &info) == 0 && info.st_uid == ::geteuid() &&
                                       (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!is_own) return Error{"[file] " + path + ": others could have written it; remove it"};
  return map(file.release(), path);
}

Result<MappedFile> MappedFile::map(int fd, const std::string& path) {
  const Descriptor file(fd);
  SMELT_TRY(size, open_size(file, path));
  if (size == 0) return MappedFile();  // an empty mapping is not possible, an empty file is
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return file_error(path, "map");
  note_mapping({static_cast<const std::byte*>(data), size}, path);
  return MappedFile(static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_file(const std::string& path, uint64_t limit) {
  Descriptor file = open_to_read(path);
  SMELT_TRY(size, open_size(file, path));
  if (size > limit) {
    return Error{"[file] " + path + ": " + std::to_string(size) + " bytes are more than the limit of " +
                 std::to_string(limit) + "; give a smaller file"};
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t count = ::read(file.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(path, "read");
    if (count == 0) break;  // it became shorter meanwhile
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

int write_all(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

Result<std::string> read_stream(const std::string& path, uint64_t limit) {
  const bool is_stdin = path == "-";
  const Descriptor opened(is_stdin ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!is_stdin && !opened.ok())
    return Error{file_error(path, "open").message + "; check the path and its permissions"};
  std::string text;
  std::vector<char> block(64 << 10);
  for (;;) {
    const ssize_t count = ::read(is_stdin ? STDIN_FILENO : opened.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(is_stdin ? "standard input" : path, "read");
    if (count == 0) return text;
    text.append(block.data(), static_cast<size_t>(count));
    if (text.size() > limit)
      return Error{"[file] " + path + ": more than the limit of " + std::to_string(limit) + " bytes; give less"};
  }
}

Status publish_file(const std::string& path, std::string_view contents) {
  SMELT_TRY(file, NewFile::create(path));
  if (write_all(file.fd(), contents) != 0) return file_error(path, "write");
  return file.publish();
}

Status make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int mkdir_error = errno;
      struct stat info;  // a parent may refuse mkdir with another error than EEXIST although it is there
      if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        errno = mkdir_error;
        return file_error(part, "make the folder");
      }
    }
    if (end == std::string::npos) break;
  }
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error{"[file] " + path + ": not a folder; remove what lies there or choose another path"};
  }
  return {};
}

}  // namespace smelt
