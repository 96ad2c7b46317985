#include "server/responses.h"

#include "server/chat_request.h"
#include "server/fields.h"
#include "server/responses_answer.h"

namespace smelt {
namespace {

using Problem = std::optional<ApiError>;

// A text, or a list of parts of text.
Problem read_parts(const Json& content, std::string& text) {
  if (content.is_string()) return text += content.get_ref<const std::string&>(), std::nullopt;
  if (!content.is_array()) return wrong("input", "a content is a string or a list of parts");
  for (const Json& part : content) {
    const std::string type = part.is_object() ? text_field(part, "type") : "";
    if ((type != "input_text" && type != "output_text" && type != "text") || !part.value("text", Json()).is_string())
      return wrong("input", "parts are input_text or output_text with a text; this server reads text only");
    text += (text.empty() ? "" : "\n") + text_field(part, "text");
  }
  return std::nullopt;
}

// --- from items to messages, which templates know

// What an assistant said and called comes in several items, but is one message.
Json& open_assistant(Json& messages) {
  if (messages.empty() || messages.back()["role"] != "assistant")
    messages.push_back({{"role", "assistant"}, {"content", nullptr}});
  return messages.back();
}

Problem read_message_item(const Json& item, Json& messages) {
  std::string role = text_field(item, "role"), text;
  if (role == "developer") role = "system";
  if (role != "user" && role != "assistant" && role != "system")
    return wrong("input", "a message has the role user, assistant, system or developer");
  if (auto problem = read_parts(item.value("content", Json()), text)) return problem;
  if (role != "assistant") {
    messages.push_back({{"role", role}, {"content", text}});
    return std::nullopt;
  }
  if (!messages.empty() && messages.back()["role"] == "assistant" && !messages.back()["content"].is_null())
    messages.push_back({{"role", role}, {"content", nullptr}});
  open_assistant(messages)["content"] = text;
  return std::nullopt;
}

Problem read_call_item(const Json& item, Json& messages) {
  if (text_field(item, "name").empty()) return wrong("input", "a function_call has a name");
  const std::string arguments = text_field(item, "arguments");
  open_assistant(messages)["tool_calls"].push_back(
      {{"id", text_field(item, "call_id")},
       {"type", "function"},
       {"function", {{"name", text_field(item, "name")}, {"arguments", arguments.empty() ? "{}" : arguments}}}});
  return std::nullopt;
}

Problem read_item(const Json& item, Json& messages) {
  if (!item.is_object()) return wrong("input", "an item is an object");
  const std::string type = text_field(item, "type");
  if (type.empty() || type == "message") return read_message_item(item, messages);
  if (type == "function_call") return read_call_item(item, messages);
  std::string text;
  if (type == "function_call_output") {
    if (auto problem = read_parts(item.value("output", Json()), text)) return problem;
    messages.push_back({{"role", "tool"}, {"tool_call_id", text_field(item, "call_id")}, {"content", text}});
    return std::nullopt;
  }
  if (type != "reasoning")
    return wrong("input",
                 type + " is not supported; items are message, function_call, function_call_output, reasoning");
  for (const Json& part : item.value("content", Json::array()))
    if (part.is_object()) text += text_field(part, "text");
  if (!text.empty()) messages.push_back({{"role", "assistant"}, {"content", nullptr}, {"reasoning_content", text}});
  return std::nullopt;
}

Problem read_input(const Json& body, Chat& chat) {
  const Json instructions = body.value("instructions", Json()), input = body.value("input", Json());
  if (!instructions.is_null() && !instructions.is_string()) return wrong("instructions", "expected a string");
  if (instructions.is_string()) chat.messages.push_back({{"role", "system"}, {"content", instructions}});
  if (input.is_string()) {
    chat.messages.push_back({{"role", "user"}, {"content", input}});
    return std::nullopt;
  }
  if (!input.is_array() || input.empty()) return wrong("input", "expected a string, or a list of items");
  for (const Json& item : input)
    if (auto problem = read_item(item, chat.messages)) return problem;
  return std::nullopt;
}

Problem read_function_tools(const Json& body, Chat& chat) {
  const Json given = body.value("tools", Json());
  if (given.is_null()) return std::nullopt;
  if (!given.is_array()) return wrong("tools", "expected a list");
  Json tools = Json::array();
  for (const Json& tool : given) {
    const std::string type = tool.is_object() ? text_field(tool, "type") : "";
    if (type != "function" || text_field(tool, "name").empty())
      return wrong("tools", "this server knows function tools with a name, and does not run others itself");
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters", "strict"})
      if (tool.contains(name) && !tool[name].is_null()) function[name] = tool[name];
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return read_tools(tools, chat);
}

void read_choice(Fields& fields, ToolChoice& choice) {
  using Kind = ToolChoice::Kind;
  choice.may_be_many = fields.flag("parallel_tool_calls", true);
  const Json* given = fields.find("tool_choice");
  if (!given || *given == "auto") return;
  if (*given == "none") choice.kind = Kind::None;
  if (*given == "required") choice.kind = Kind::Required;
  if (given->is_object() && text_field(*given, "type") == "function") {
    choice.kind = Kind::Named;
    choice.name = text_field(*given, "name");
  }
  if (choice.kind == Kind::Auto)
    fields.fail("tool_choice", "expected none, auto, required or {\"type\": \"function\", \"name\": ...}");
}

void read_reasoning(Fields& fields, Chat& chat) {
  const Json* given = fields.find("reasoning");
  if (!given) return;
  if (!given->is_object()) return fields.fail("reasoning", "expected an object");
  const std::string effort = text_field(*given, "effort");
  if (effort.empty()) return;
  chat.variables["reasoning_effort"] = effort;
  if (effort == "none") chat.variables["enable_thinking"] = false;
}

void read_text_format(Fields& fields, const ServedModel& model, Settings& settings) {
  const Json* text = fields.find("text");
  if (!text) return;
  const Json format = text->is_object() ? text->value("format", Json()) : Json();
  const std::string type = format.is_object() ? text_field(format, "type") : "";
  if (!text->is_object() || (!format.is_null() && type != "text" && type != "json_object" && type != "json_schema"))
    return fields.fail("text", "its format has the type text, json_object or json_schema");
  if (type == "json_object") hold_to_schema("text", Json(), fields, model, settings);
  if (type != "json_schema") return;
  if (!format.contains("schema")) return fields.fail("text", "its format has no schema");
  hold_to_schema("text", format["schema"], fields, model, settings);
}

void refuse_what_is_missing(Fields& fields) {
  fields.refuse("previous_response_id", nullptr, "nothing is kept here; send the whole conversation as input");
  fields.refuse("conversation", nullptr, "nothing is kept here; send the whole conversation as input");
  fields.refuse("prompt", nullptr, "send instructions and input");
  fields.refuse("background", false, "leave it out");
  fields.refuse("truncation", "disabled", "shorten the input yourself");
  fields.refuse("top_logprobs", 0, "use /v1/chat/completions");
}

// What an answer repeats of its request.
Json echo_of(const Json& body, const SamplerOptions& sampler) {
  Json echo = {{"instructions", nullptr},
               {"max_output_tokens", nullptr},
               {"parallel_tool_calls", true},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"truncation", "disabled"},
               {"metadata", Json::object()},
               {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
               {"text", {{"format", {{"type", "text"}}}}}};
  for (auto& [name, value] : echo.items())
    if (body.contains(name) && !body[name].is_null()) value = body[name];
  echo["temperature"] = sampler.temperature;
  echo["top_p"] = sampler.top_p;
  return echo;
}

}  // namespace

std::optional<ApiError> read_responses(const Json& body, const ServedModel& model, const Stamp& stamp,
                                       ApiRequest& understood) {
  ChatRequest request;
  if (auto problem = read_input(body, request.chat)) return problem;
  if (auto problem = read_function_tools(body, request.chat)) return problem;
  Fields fields(body);
  refuse_what_is_missing(fields);
  read_choice(fields, request.tool_choice);
  read_template_variables(fields, request.chat);
  read_reasoning(fields, request.chat);
  const int64_t length = fields.whole("max_output_tokens", 1, int64_t{1} << 30, model.usual_length(-1));
  request.settings = read_settings(fields, model, length);
  read_text_format(fields, model, request.settings);
  if (fields.problem()) return fields.problem();
  const Settings settings = request.settings;
  PreparedChat prepared;
  if (auto problem = prepare_chat(std::move(request), model, prepared)) return problem;
  understood.answer =
      make_responses_answer(model, settings, prepared, echo_of(body, settings.generation.sampler), stamp);
  understood.generations = {std::move(prepared.generation)};
  understood.stream = settings.stream;
  return std::nullopt;
}

}  // namespace smelt
