// Repeats one kernel that DUMP=dir left behind: parses it, compiles it, runs it and the interpreter
// on the same random inputs, and says how they compare.
#pragma once

#include <string>

#include "base/result.h"

namespace smelt {

struct ReplayReport {
  std::string text;    // for the user: the kernel, its options, time, largest difference
  bool agrees = true;  // with the interpreter, within the bound of its reductions
};

// An Error if the file cannot be read or is not a dumped kernel.
Result<ReplayReport> replay_kernel(const std::string& path);

}  // namespace smelt
