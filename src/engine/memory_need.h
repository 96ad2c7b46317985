// Whether a session fits into memory, asked before anything large is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace smelt {

struct MemoryNeed {
  int64_t weights = 0;          // that are packed; those read in place can be dropped by the system and do not count
  int64_t session = 0;          // cache and working memory
  int64_t states = 0;           // of that recurrent states
  int64_t fitting_context = 0;  // most tokens of context that the memory there is has room for; 0: not known, or none

  int64_t bytes() const { return weights + session; }
};

struct MemoryThere {
  uint64_t bytes = 0;
  std::string gpu = {};  // whose memory it is; empty: the processor's
};

// An Error if there is too little memory. It names the model, both numbers, and what would help.
Status check_memory(const MemoryNeed& need, const MemoryThere& there, const std::string& model);

}  // namespace smelt
