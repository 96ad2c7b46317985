// ChatRequest: what a chat asks of the backend, whichever API it came by. The APIs' readers fill it in.
#pragma once

#include "chat/output_parser.h"
#include "server/answer.h"
#include "server/settings.h"

namespace smelt {

struct ToolChoice {
  enum class Kind { Auto, None, Required, Named };
  Kind kind = Kind::Auto;
  std::string name = {};              // of Named
  bool may_be_many = true;            // calls in one answer
  const char* field = "tool_choice";  // what to name in an error
};

struct ChatRequest {
  Chat chat;
  ToolChoice tool_choice;
  Settings settings;
};

// What the backend is asked for, and how its text is to be read.
struct PreparedChat {
  GenerationRequest generation;
  OutputOptions output;
};

std::optional<ApiError> prepare_chat(ChatRequest request, const ServedModel& model, PreparedChat& prepared);

// A list of tools in OpenAI's form; an ApiError names the one that is none.
std::optional<ApiError> read_tools(const Json& tools, Chat& chat);

// chat_template_kwargs and reasoning_effort, which every API takes.
void read_template_variables(Fields& fields, Chat& chat);

// The ids of the prompt that a chat becomes.
std::optional<ApiError> encode_chat(const Chat& chat, const ServedModel& model, std::vector<int32_t>& ids);

}  // namespace smelt
