// Answers of /v1/responses: a list of items (reasoning, message, function_call), and the events of its stream.
#pragma once

#include "server/chat_output.h"
#include "server/chat_request.h"

namespace smelt {

// `echo`: what the answer repeats of the request (instructions, tools, temperature and so on).
std::unique_ptr<Answer> make_responses_answer(const ServedModel& model, const Settings& settings,
                                              const PreparedChat& prepared, Json echo, const Stamp& stamp);

}  // namespace smelt
