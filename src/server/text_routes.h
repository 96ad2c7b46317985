// Questions about texts that need no engine: tokens of a text, texts of tokens, prompts of chats.
// Once `cancel` is true nobody wants the answer, which may then be anything.
#pragma once

#include <atomic>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/served_model.h"

namespace smelt {

std::optional<ApiError> tokenize(const Json& body, const ServedModel& model, Json& answer,
                                 const std::atomic<bool>& cancel);
std::optional<ApiError> detokenize(const Json& body, const ServedModel& model, Json& answer,
                                   const std::atomic<bool>& cancel);
std::optional<ApiError> apply_template(const Json& body, const ServedModel& model, Json& answer,
                                       const std::atomic<bool>& cancel);

}  // namespace smelt
