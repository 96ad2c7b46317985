#include "chat/saved_conversation.h"

#include <algorithm>

#include "chat/call_values.h"

namespace smelt {
namespace {

using nlohmann::ordered_json;

Error file_error(const std::string& name, const std::string& what) { return Error{"[chat] " + name + ": " + what}; }

Result<ordered_json> json_of(std::string_view text, const std::string& name) {
  ordered_json json = parse_json(text);
  if (json.is_discarded()) return file_error(name, "this is no JSON");
  return json;
}

bool has_string(const ordered_json& object, const char* field) {
  return object.is_object() && object.contains(field) && object[field].is_string();
}

bool is_call(const ordered_json& call) {
  return call.is_object() && call.contains("function") && has_string(call["function"], "name");
}

Status check_message(const ordered_json& message, const std::string& name) {
  if (!has_string(message, "role")) return file_error(name, "a message has no role");
  if (!message.contains("tool_calls") || message["tool_calls"].is_null()) return {};
  const ordered_json& calls = message["tool_calls"];
  if (!calls.is_array() || !std::all_of(calls.begin(), calls.end(), is_call))
    return file_error(name, "tool_calls of a message are no list of objects with the name of a function");
  return {};
}

}  // namespace

Result<SavedConversation> read_conversation(std::string_view text, const std::string& name) {
  SMELT_TRY(json, json_of(text, name));
  const ordered_json object = json.is_object() ? std::move(json) : ordered_json{{"messages", std::move(json)}};
  if (!object.contains("messages") || !object["messages"].is_array())
    return file_error(name, "it has no list of messages");
  SavedConversation saved;
  saved.messages = object["messages"];
  for (const ordered_json& message : saved.messages) SMELT_CHECK(check_message(message, name));
  if (object.contains("tools") && object["tools"].is_array()) saved.tools = object["tools"];
  if (object.contains("chat_template_kwargs") && object["chat_template_kwargs"].is_object())
    saved.variables = object["chat_template_kwargs"];
  for (const auto& [key, value] : object.items())
    if (value.is_number()) saved.numbers[key] = value.get<double>();
  return saved;
}

Result<ordered_json> read_tools(std::string_view text, const std::string& name) {
  SMELT_TRY(json, json_of(text, name));
  ordered_json tools = json.is_object() && json.contains("tools") ? ordered_json(json["tools"]) : std::move(json);
  if (!tools.is_array()) return file_error(name, "it has no list of tools");
  return tools;
}

}  // namespace smelt
