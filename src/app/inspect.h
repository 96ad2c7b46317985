// `smelt inspect FILE`: what is in a model file and what running it would take, without loading it.
#pragma once

#include <cstdint>
#include <string>

namespace smelt {

struct InspectOptions {
  std::string path;
  bool json = false;
  int64_t context = 4096;  // tokens, for the size of the KV cache
};

// Prints to stdout; errors go to stderr as `smelt: MESSAGE`. Returns the exit code.
int run_inspect(const InspectOptions& options);

}  // namespace smelt
