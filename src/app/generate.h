// The loop of text generation: prompt in, one token after the other out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "text/tokenizer.h"

namespace smelt {

enum class StopReason { length, stop_token, context_full, interrupted };

struct Generation {
  StopReason stopped = StopReason::length;
  int64_t prompt_tokens = 0;
  double prompt_seconds = 0;
  int64_t tokens = 0;         // given out
  int64_t decode_steps = 0;   // tokens appended one at a time
  double decode_seconds = 0;  // of those steps, sampling included
};

struct GenerateOptions {
  int64_t max_tokens = 256;  // negative: until a stop token or a full context
  bool ignore_stop = false;  // stop tokens are given out like any other
};

// Appends `prompt` and gives each new token to `emit`. A cancelled run is not an Error: it ends as `interrupted`.
// REQUIRES: the prompt is not empty and fits the context; `sampler` has seen it.
Result<Generation> generate(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const int32_t> prompt, const GenerateOptions& options,
                            const std::function<void(int32_t)>& emit,
                            const std::atomic<bool>& cancel);

}  // namespace smelt
