// /v1/messages, as Anthropic's API has it.
#pragma once

#include <atomic>

#include "server/answer.h"
#include "server/served_model.h"

namespace smelt {

std::optional<ApiError> read_messages(const Json& body, const ServedModel& model, const Stamp& stamp,
                                      ApiRequest& understood);

// /v1/messages/count_tokens: how long the prompt would be.
std::optional<ApiError> count_message_tokens(const Json& body, const ServedModel& model, Json& answer,
                                             const std::atomic<bool>& cancel);

}  // namespace smelt
