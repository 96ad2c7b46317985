// The loop of text generation: prompt in, one token after the other out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "engine/speculation.h"
#include "grammar/constraint.h"
#include "text/tokenizer.h"

namespace smelt {

// complete: by the constraint; unwanted: by whoever the tokens were given to.
enum class StopReason { length, stop_token, complete, context_full, interrupted, unwanted };

struct Generation {
  StopReason stopped = StopReason::length;
  int64_t prompt_tokens = 0;
  double prompt_seconds = 0;
  int64_t tokens = 0;         // given out
  int64_t decode_steps = 0;   // tokens appended after the prompt: one at a time, or with drafts several in a step
  double decode_seconds = 0;  // of these, sampling included
};

struct GenerateOptions {
  int64_t max_tokens = 256;                   // negative: until a stop token or a full context
  bool ignore_stop = false;                   // stop tokens are given out like any other
  std::optional<std::vector<int32_t>> stops;  // ascending, in place of the tokenizer's
  Constraint* constraint = nullptr;           // what the text has to be; stop tokens may come where it may end
  Speculation* speculation = nullptr;         // drafts, several of which are verified in a step
  std::vector<int32_t> before = {};           // tokens in the context before the prompt, for drafts
};

// Appends `prompt` and gives each new token to `emit`, until that says false: nobody wants more. A cancelled run is not
// an Error: it ends as `interrupted`. REQUIRES: the prompt is not empty and fits the context; `sampler` has seen it.
Result<Generation> generate(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const int32_t> prompt, const GenerateOptions& options,
                            const std::function<bool(int32_t)>& emit, const std::atomic<bool>& cancel);

}  // namespace smelt
