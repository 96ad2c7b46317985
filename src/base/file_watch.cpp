#include "base/file_watch.h"

#include <sys/stat.h>

#include "base/mapped_files.h"
#include "base/system_calls.h"

namespace smelt {
namespace {

constexpr const char* kAdvice = "; start again, and replace a model file by a rename, between two starts";

}  // namespace

FileWatch::FileWatch(std::span<const File> files, std::chrono::milliseconds every) : every_(every) {
  for (const File& file : files) files_.push_back({file, state_of(file.path)});
}

std::optional<FileWatch::State> FileWatch::state_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  const timespec modified = modified_at(info);
  return State{.device = info.st_dev,
               .inode = info.st_ino,
               .bytes = static_cast<uint64_t>(info.st_size),
               .seconds = modified.tv_sec,
               .nanoseconds = modified.tv_nsec};
}

std::string FileWatch::problem_of(const Watched& watched) {
  const auto& [file, was] = watched;
  const auto is = state_of(file.path);
  if (!is || (is == was && is->bytes == file.bytes)) return {};
  const char* what = "was changed";
  if (was && (is->inode != was->inode || is->device != was->device))
    what = "was replaced by another file";
  else if (is->bytes < file.bytes)
    what = "became shorter";
  return file.path + ": " + what + " while it was in use" + kAdvice;
}

std::string FileWatch::problem() {
  // Found out by whoever has read it, at once.
  if (const std::string_view lost = lost_file(); !lost.empty())
    return std::string(lost) + ": became shorter while it was in use, or its disk cannot be read" + kAdvice;
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return problem_;
  next_ = now + every_;
  problem_.clear();
  for (const Watched& watched : files_)
    if (problem_.empty()) problem_ = problem_of(watched);
  return problem_;
}

}  // namespace smelt
