// Questions about texts that need no engine: tokens of a text, texts of tokens, prompts of chats.
#pragma once

#include "server/api_error.h"
#include "server/fields.h"
#include "server/served_model.h"

namespace smelt {

std::optional<ApiError> tokenize(const Json& body, const ServedModel& model, Json& answer);
std::optional<ApiError> detokenize(const Json& body, const ServedModel& model, Json& answer);
std::optional<ApiError> apply_template(const Json& body, const ServedModel& model, Json& answer);

}  // namespace smelt
