// Files: read-only mappings, small reads, and publishing a file so that others see it whole or not
// at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smelt {

// A regular file, mapped for reading. Moves, does not copy; the mapping's address stays the same
// when it moves.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  // One that nobody else can have written: it belongs to this user, others may not write to it, and the path is no
  // link. What is checked is what is mapped.
  static Result<MappedFile> open_own(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }

 private:
  static Result<MappedFile> map(int fd, const std::string& path);
  MappedFile(const std::byte* data, uint64_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// The whole file. Refuses files over `limit` bytes before reading them.
Result<std::string> read_file(const std::string& path, uint64_t limit = 1 << 30);

// All of a file, pipe or device that a user named; `-` is standard input.
Result<std::string> read_stream(const std::string& path, uint64_t limit = 1 << 30);

// Writes all of it, however often the system takes only a part. 0, or -1 with errno set.
int write_all(int fd, std::string_view contents);

// Writes `contents` to a temporary file beside `path`, syncs it, renames it to `path` and syncs the
// folder: a reader, or a machine that loses power, finds the old file or the whole new one. The
// folder must exist.
Status publish_file(const std::string& path, std::string_view contents);

// Makes the folder and its parents where they are missing; new ones are for the user alone (mode
// 0700).
Status make_folders(const std::string& path);

}  // namespace smelt
