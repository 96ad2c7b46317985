// Whether a session fits into memory, asked before anything large is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace smelt {

struct MemoryNeed {
  int64_t weights = 0;  // that are packed; those read in place can be dropped by the system and do not count
  int64_t session = 0;  // cache and working memory

  int64_t bytes() const { return weights + session; }
};

// An Error if `available` bytes are too few. It names the model, both numbers, and what would help.
Status check_memory(const MemoryNeed& need, uint64_t available, const std::string& model);

}  // namespace smelt
