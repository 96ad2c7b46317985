// Talking with a model: what `smelt chat` is asked for, and `smelt run` where it has no prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/engine_flags.h"
#include "app/sampling_flags.h"

namespace smelt {

struct ChatFlags {
  EngineFlags engine;
  std::vector<std::string> words, files;
  std::optional<std::string> system, template_file, variables, tools_file, load, save;
  SamplingFlags sampling;
  int64_t max_tokens = -1;
  bool think = false, no_think = false, fold = false;
};

Result<int> chat(const ChatFlags& flags);

}  // namespace smelt
