// NewFile: a file that others see whole or not at all.
//
// It is written under a temporary name beside the one it is to have ("model.pack.tmp-71-0"), and gets its own by a
// rename once all of it is on the disk. A file that is given up is removed; what a killed process leaves is recognised
// by a lock that its death has released.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace smelt {

class NewFile {
 public:
  // The folder must exist. `mode` as open() takes it: readable and writable by this user only, unless said otherwise.
  static Result<NewFile> create(const std::string& path, unsigned mode = 0600);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile();  // removes it unless it was published

  int fd() const { return fd_; }

  // Syncs it, gives it its name, replacing a file that has it, and syncs the folder.
  Status publish();

 private:
  NewFile() = default;
  Status sync_and_rename();

  int fd_ = -1;
  std::string path_, temporary_;
};

// Removes the temporary files of this process, for when it ends while other threads are writing; they will not be able
// to publish.
void remove_unfinished_files();

// Removes the temporary files in a folder that were to end in `suffix` and whose writers are dead.
void remove_abandoned_files(const std::string& folder, std::string_view suffix);

}  // namespace smelt
