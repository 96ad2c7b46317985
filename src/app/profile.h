// `smelt profile`: where the time of a token and of a prompt goes, kernel by kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/engine_flags.h"

namespace smelt {

struct ProfileFlags {
  EngineFlags engine;
  std::string machine;                // by name: estimate for it, and run nothing; empty: time this one
  std::string synthetic;              // in place of a file
  int64_t tokens = 20;                // decode steps
  int64_t prompt_tokens = 256;        // random ones, where there is no text
  std::optional<std::string> prompt;  // the text
  int64_t depth = 0;                  // tokens in the context before decoding is measured
  int repetitions = 5;                // of the prompt
  bool all = false;                   // every kernel, however cheap
  bool details = false;               // of each kernel
  std::string kernel;                 // show this one in all its forms instead of timing
  std::string trace;                  // paths; empty: none
  std::string json;
  std::vector<std::string> compare;  // two saved profiles
};

Result<int> run_profile(const ProfileFlags& flags);

}  // namespace smelt
