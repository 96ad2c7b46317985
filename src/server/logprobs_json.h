// Logprobs as clients see them: OpenAI's two forms.
#pragma once

#include <span>

#include "engine/logprobs.h"
#include "server/fields.h"
#include "text/tokenizer.h"

namespace smelt {

constexpr int32_t kMostLogprobs = 20;  // for each token

// Of chats: {"token", "logprob", "bytes", "top_logprobs"}.
Json json_of(const Logprobs& logprobs, const Tokenizer& tokenizer);

// Of texts: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; the first token begins at `offset`.
Json legacy_json_of(std::span<const Logprobs> logprobs, const Tokenizer& tokenizer, size_t offset);

}  // namespace smelt
