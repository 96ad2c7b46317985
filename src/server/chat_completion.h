// /v1/chat/completions, as OpenAI's API has it.
#pragma once

#include "server/answer.h"
#include "server/served_model.h"

namespace smelt {

// From the body of a request to what the backend and the client get. An ApiError says which field is wrong.
std::optional<ApiError> read_chat_completion(const Json& body, const ServedModel& model, const Stamp& stamp,
                                             ApiRequest& request);

// The chat of a body: messages, tools, chat_template_kwargs, reasoning_effort, add_generation_prompt.
std::optional<ApiError> read_chat(const Json& body, Chat& chat);

}  // namespace smelt
