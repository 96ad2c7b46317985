// `smelt inspect MODEL`: what is in a model file and what running it would take, without loading it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace smelt {

struct InspectOptions {
  std::string model;  // as -m takes it
  bool json = false;
  int64_t context = 4096;  // tokens, for the size of the attention cache
  std::string machine;     // by name: what its memory allows; empty: none
};

// Prints to stdout.
Status inspect(const InspectOptions& options);

}  // namespace smelt
