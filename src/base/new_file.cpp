#include "base/new_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace smelt {
namespace {

constexpr std::string_view kMark = ".tmp-";

Error file_error(const std::string& path, const char* doing) {
  return Error{"[file] " + path + ": cannot " + doing + ": " + std::strerror(errno)};
}

// The temporary files of this process.
class Unfinished {
 public:
  // A name that no other process or thread uses.
  std::string add(const std::string& path) {
    std::lock_guard lock(mutex_);
    const std::string name = path + std::string(kMark) + std::to_string(::getpid()) + "-" + std::to_string(count_++);
    return *names_.insert(name).first;
  }
  void forget(const std::string& name) {
    std::lock_guard lock(mutex_);
    names_.erase(name);
  }
  void remove_all() {
    std::lock_guard lock(mutex_);
    for (const std::string& name : names_) ::unlink(name.c_str());
    names_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
  unsigned count_ = 0;
};

// Never destroyed: threads that outlive main() may still publish.
Unfinished& unfinished() {
  static Unfinished* const all = new Unfinished;
  return *all;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  Status status;
  if (folder < 0 || ::fsync(folder) != 0) status = file_error(path, "sync the folder");
  if (folder >= 0) ::close(folder);
  return status;
}

// A writer holds the lock as long as it lives.
bool has_no_writer(int folder, const char* name) {
  const int fd = ::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return free;
}

}  // namespace

Result<NewFile> NewFile::create(const std::string& path, unsigned mode) {
  NewFile file;
  file.path_ = path;
  file.temporary_ = unfinished().add(path);
  file.fd_ = ::open(file.temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (file.fd_ < 0) {
    const Error error = file_error(file.temporary_, "create");
    unfinished().forget(std::exchange(file.temporary_, {}));  // not ours to remove
    return error;
  }
  ::flock(file.fd_, LOCK_EX | LOCK_NB);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  return *this;
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  unfinished().forget(temporary_);
}

Status NewFile::sync_and_rename() {
  if (::fsync(fd_) != 0) return file_error(temporary_, "sync");
  if (::close(std::exchange(fd_, -1)) != 0) return file_error(temporary_, "close");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return file_error(path_, "rename a file to");
  unfinished().forget(std::exchange(temporary_, {}));
  return {};
}

Status NewFile::publish() {
  if (const Status done = sync_and_rename(); !done) return done;
  return sync_folder(folder_of(path_));
}

void remove_unfinished_files() { unfinished().remove_all(); }

void remove_abandoned_files(const std::string& folder, std::string_view suffix) {
  DIR* listing = ::opendir(folder.c_str());
  if (!listing) return;
  const std::string mark = std::string(suffix) + std::string(kMark);
  while (const dirent* item = ::readdir(listing))
    if (std::string_view(item->d_name).find(mark) != std::string_view::npos &&
        has_no_writer(::dirfd(listing), item->d_name))
      ::unlinkat(::dirfd(listing), item->d_name, 0);
  ::closedir(listing);
}

}  // namespace smelt
