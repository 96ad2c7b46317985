#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/new_file.h"

namespace smelt {
namespace {

constexpr unsigned kNewFileMode = 0666;  // the user's umask takes from it what it should
constexpr unsigned kModeBits = 07777;

Error output_error(const std::string& path, const char* doing) {
  return Error{"[file] " + path + ": cannot " + doing + ": " + std::strerror(errno)};
}

bool is_standard_output(const std::string& path, const struct stat& info) {
  struct stat out;
  return path == "-" || (::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == info.st_dev && out.st_ino == info.st_ino);
}

// Names such as /dev/fd/3 lead to a file that somebody holds open: a file put in its place would not be theirs.
bool is_name_of_a_descriptor(const std::string& path) {
  return path.starts_with("/dev/") || path.starts_with("/proc/");
}

// Where a file of this name ends up; a link to nothing leads to the file that it would make.
std::string links_followed(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (!real) {
    char target[4096];
    const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
    if (size <= 0 || size == sizeof target) return path;
    const std::string to(target, static_cast<size_t>(size));
    const size_t slash = path.rfind('/');
    return to[0] == '/' || slash == std::string::npos ? to : path.substr(0, slash + 1) + to;
  }
  const std::string result = real;
  std::free(real);
  return result;
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file(path);
  struct stat info = {};
  const bool exists = path != "-" && ::stat(path.c_str(), &info) == 0;
  if (path.empty()) return Error{"[file] the name of the file to write is empty; give one, or - for standard output"};
  if (exists && S_ISDIR(info.st_mode)) return Error{"[file] " + path + ": this is a folder; give the path of a file"};
  if (path == "-" || (exists && is_standard_output(path, info))) {
    file.fd_ = STDOUT_FILENO;
    return file;
  }
  if (exists && (!S_ISREG(info.st_mode) || is_name_of_a_descriptor(path))) {
    file.fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file.fd_ < 0) return output_error(path, "open it to write");
    return file;
  }
  file.target_ = links_followed(path);
  file.mode_ = exists ? info.st_mode & kModeBits : kNewFileMode;
  if (const auto tried = NewFile::create(file.target_, file.mode_); !tried) return tried.error();
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      mode_(other.mode_),
      fd_(std::exchange(other.fd_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  std::swap(mode_, other.mode_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0 && fd_ != STDOUT_FILENO) ::close(fd_);
}

Status OutputFile::write(std::string_view contents) {
  return target_.empty() ? write_into(contents) : publish(contents);
}

Status OutputFile::write_into(std::string_view contents) {
  std::fflush(stdout);  // what was printed before comes first
  if (write_all(fd_, contents) != 0) return output_error(path_, "write");
  return {};
}

Status OutputFile::publish(std::string_view contents) {
  SMELT_TRY(file, NewFile::create(target_, mode_));
  if (write_all(file.fd(), contents) != 0) return output_error(path_, "write");
  return file.publish();
}

}  // namespace smelt
