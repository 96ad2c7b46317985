#include "server/messages.h"

#include "server/chat_request.h"
#include "server/fields.h"
#include "server/messages_answer.h"

namespace smelt {
namespace {

using Problem = std::optional<ApiError>;

// A text, or a list of blocks of text.
Problem read_text(const char* param, const Json& content, std::string& text) {
  if (content.is_null()) return std::nullopt;
  if (content.is_string()) return text += content.get_ref<const std::string&>(), std::nullopt;
  if (!content.is_array()) return wrong(param, "expected a string or a list of blocks");
  for (const Json& block : content) {
    if (!block.is_object() || text_field(block, "type") != "text" || !block.value("text", Json()).is_string())
      return wrong(param, "blocks in it are {\"type\": \"text\", \"text\": ...}; this server reads text only");
    text += (text.empty() ? "" : "\n") + text_field(block, "text");
  }
  return std::nullopt;
}

// --- from Anthropic's messages to OpenAI's, which templates know

Problem read_user_block(const Json& block, Json& messages, std::string& text) {
  const std::string type = text_field(block, "type");
  if (type == "text") return read_text("messages", Json::array({block}), text);
  if (type != "tool_result")
    return wrong("messages",
                 "a block of a user is text or tool_result, not " + (type.empty() ? "without a type" : type));
  std::string result;
  if (auto problem = read_text("messages", block.value("content", Json()), result)) return problem;
  messages.push_back({{"role", "tool"}, {"tool_call_id", text_field(block, "tool_use_id")}, {"content", result}});
  return std::nullopt;
}

Problem read_assistant_block(const Json& block, Json& message, std::string& text) {
  const std::string type = text_field(block, "type");
  if (type == "text") return read_text("messages", Json::array({block}), text);
  if (type == "redacted_thinking") return std::nullopt;
  if (type == "thinking") {
    message["reasoning_content"] = message.value("reasoning_content", "") + text_field(block, "thinking");
    return std::nullopt;
  }
  if (type != "tool_use")
    return wrong("messages", "a block of an assistant is text, thinking or tool_use, not " +
                                 (type.empty() ? "without a type" : type));
  const Json input = block.value("input", Json::object());
  if (text_field(block, "name").empty() || !input.is_object())
    return wrong("messages", "tool_use: expected a name and an input that is an object");
  message["tool_calls"].push_back({{"id", text_field(block, "id")},
                                   {"type", "function"},
                                   {"function", {{"name", text_field(block, "name")}, {"arguments", dump(input)}}}});
  return std::nullopt;
}

Problem read_message(const Json& given, Json& messages) {
  const std::string role = given.is_object() ? text_field(given, "role") : "";
  if (role != "user" && role != "assistant" && role != "system")
    return wrong("messages", "each one is an object with the role user or assistant");
  const Json content = given.value("content", Json());
  if (!content.is_array()) {
    if (!content.is_string()) return wrong("messages", "content is a string or a list of blocks");
    messages.push_back({{"role", role}, {"content", content}});
    return std::nullopt;
  }
  Json message = {{"role", role}, {"content", nullptr}};
  std::string text;
  for (const Json& block : content) {
    if (!block.is_object()) return wrong("messages", "a block of a content is an object");
    auto problem =
        role == "assistant" ? read_assistant_block(block, message, text) : read_user_block(block, messages, text);
    if (problem) return problem;
  }
  if (!text.empty() || role == "assistant") {
    if (!text.empty() || !message.contains("tool_calls")) message["content"] = text;
    messages.push_back(std::move(message));
  }
  return std::nullopt;
}

Problem read_all_messages(const Json& body, Chat& chat) {
  const Json given = body.value("messages", Json());
  if (!given.is_array() || given.empty()) return wrong("messages", "expected a list with at least one message");
  std::string system;
  if (auto problem = read_text("system", body.value("system", Json()), system)) return problem;
  if (!system.empty()) chat.messages.push_back({{"role", "system"}, {"content", system}});
  for (const Json& message : given)
    if (auto problem = read_message(message, chat.messages)) return problem;
  if (chat.messages.empty() || chat.messages.back()["role"] == "assistant")
    return wrong("messages", "the last one is a user's; going on with the words of an assistant is not supported");
  return std::nullopt;
}

Problem read_anthropic_tools(const Json& body, Chat& chat) {
  const Json given = body.value("tools", Json());
  if (given.is_null()) return std::nullopt;
  if (!given.is_array()) return wrong("tools", "expected a list");
  Json tools = Json::array();
  for (const Json& tool : given) {
    if (!tool.is_object() || text_field(tool, "name").empty())
      return wrong("tools", "each one is {\"name\": ..., \"description\": ..., \"input_schema\": {...}}");
    if (const std::string type = text_field(tool, "type"); !type.empty() && type != "custom")
      return wrong("tools", "this server does not run " + type + "; give tools with an input_schema");
    Json function = {{"name", tool["name"]}};
    if (tool.contains("description")) function["description"] = tool["description"];
    function["parameters"] = tool.value("input_schema", Json{{"type", "object"}});
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return read_tools(tools, chat);
}

Problem read_choice(const Json& body, ToolChoice& choice) {
  using Kind = ToolChoice::Kind;
  const Json given = body.value("tool_choice", Json());
  if (given.is_null()) return std::nullopt;
  const std::string type = given.is_object() ? text_field(given, "type") : "";
  if (type == "auto")
    choice.kind = Kind::Auto;
  else if (type == "none")
    choice.kind = Kind::None;
  else if (type == "any")
    choice.kind = Kind::Required;
  else if (type == "tool")
    choice.kind = Kind::Named;
  else
    return wrong("tool_choice", "expected an object whose type is auto, any, tool or none");
  choice.name = text_field(given, "name");
  choice.may_be_many = given.value("disable_parallel_tool_use", Json()) != true;
  return std::nullopt;
}

Problem read_thinking(const Json& body, Chat& chat) {
  Fields fields(body);
  read_template_variables(fields, chat);
  if (fields.problem()) return fields.problem();
  const Json given = body.value("thinking", Json());
  if (given.is_null()) return std::nullopt;
  const std::string type = given.is_object() ? text_field(given, "type") : "";
  if (type != "enabled" && type != "disabled" && type != "adaptive")
    return wrong("thinking", "expected an object whose type is enabled, adaptive or disabled");
  // The two names that templates have for it.
  for (const char* name : {"enable_thinking", "thinking"}) chat.variables[name] = type != "disabled";
  return std::nullopt;
}

Problem read_anthropic_chat(const Json& body, ChatRequest& request) {
  if (auto problem = read_all_messages(body, request.chat)) return problem;
  if (auto problem = read_anthropic_tools(body, request.chat)) return problem;
  if (auto problem = read_choice(body, request.tool_choice)) return problem;
  return read_thinking(body, request.chat);
}

}  // namespace

std::optional<ApiError> read_messages(const Json& body, const ServedModel& model, const Stamp& stamp,
                                      ApiRequest& understood) {
  ChatRequest request;
  if (auto problem = read_anthropic_chat(body, request)) return problem;
  Fields fields(body);
  if (!fields.find("max_tokens")) return wrong("max_tokens", "missing; say how many tokens the answer may have");
  request.settings = read_settings(fields, model, -1);
  request.settings.stops = read_stops(fields, "stop_sequences");
  if (fields.problem()) return fields.problem();
  const Settings settings = request.settings;
  PreparedChat prepared;
  if (auto problem = prepare_chat(std::move(request), model, prepared)) return problem;
  understood.answer = make_messages_answer(model, settings, prepared, stamp);
  understood.generations = {std::move(prepared.generation)};
  understood.stream = settings.stream;
  return std::nullopt;
}

std::optional<ApiError> count_message_tokens(const Json& body, const ServedModel& model, Json& answer,
                                             const std::atomic<bool>&) {
  ChatRequest request;
  std::vector<int32_t> ids;
  if (auto problem = read_anthropic_chat(body, request)) return problem;
  if (auto problem = encode_chat(request.chat, model, ids)) return problem;
  answer = {{"input_tokens", ids.size()}};
  return std::nullopt;
}

}  // namespace smelt
