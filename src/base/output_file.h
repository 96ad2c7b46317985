// OutputFile: the place that a user named for a result, tried before the work and written after it.
//
//   -, the file of standard output   written to standard output
//   a device, a pipe, /dev/fd/3      written into, never replaced
//   a file, a link to one, or none   published whole: what lay there before is kept until then (base/new_file.h)
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace smelt {

class OutputFile {
 public:
  // An Error says why `path` cannot be written; nothing is changed yet.
  static Result<OutputFile> open(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  // REQUIRES: called once.
  Status write(std::string_view contents);

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status write_into(std::string_view contents);
  Status publish(std::string_view contents);

  std::string path_;    // as the user wrote it
  std::string target_;  // the file to publish, links followed; empty: write into fd_
  unsigned mode_ = 0;   // of that file
  int fd_ = -1;
};

}  // namespace smelt
