// Chat: what a conversation is to the outside, in the shape of OpenAI's API, and what templates are given of it.
#pragma once

#include <nlohmann/json.hpp>

namespace smelt {

struct Chat {
  // Objects with role, content (a string, parts with text, or null) and, as they apply, tool_calls, tool_call_id, name,
  // reasoning_content.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();
  nlohmann::ordered_json documents = nlohmann::ordered_json::array();
  // Variables of the template: enable_thinking, reasoning_effort ("chat_template_kwargs").
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;  // end with the beginning of an answer
};

}  // namespace smelt
