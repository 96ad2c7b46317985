// Answers of /v1/messages: a message of blocks (thinking, text, tool_use), and the events of its stream.
#pragma once

#include "server/chat_output.h"
#include "server/chat_request.h"

namespace smelt {

std::unique_ptr<Answer> make_messages_answer(const ServedModel& model, const Settings& settings,
                                             const PreparedChat& prepared, const Stamp& stamp);

}  // namespace smelt
