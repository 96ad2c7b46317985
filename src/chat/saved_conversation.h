// A conversation in a file: JSON as the chat of smelt writes it, or the list of messages of OpenAI's API alone.
//
//   {"messages": [{"role": "user", "content": "Hi"}, ...], "tools": [...], "chat_template_kwargs": {...},
//    "temperature": 0.8, "top_k": 40, ...}
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smelt {

struct SavedConversation {
  nlohmann::ordered_json messages;                  // as Chat has them; each has a role, and its calls have names
  std::optional<nlohmann::ordered_json> tools;      // a list
  std::optional<nlohmann::ordered_json> variables;  // an object: "chat_template_kwargs"
  std::map<std::string, double> numbers;            // of the outermost object, by name: settings of the sampler
};

// `name`: of the file, for errors.
Result<SavedConversation> read_conversation(std::string_view text, const std::string& name);

// A list of tools, or an object that has one as "tools".
Result<nlohmann::ordered_json> read_tools(std::string_view text, const std::string& name);

}  // namespace smelt
