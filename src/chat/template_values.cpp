#include "chat/template_values.h"

#include <algorithm>
#include <array>

#include "jinja/error.h"
#include "jinja/json.h"

namespace smelt {
namespace {

using jinja::Text;
using jinja::Value;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 8> kRoles = {"system", "developer", "user",    "assistant",
                                                    "tool",   "function",  "ipython", "tool_response"};

bool is_known_role(const ordered_json& role) {
  return role.is_string() &&
         std::find(kRoles.begin(), kRoles.end(), role.get_ref<const std::string&>()) != kRoles.end();
}

void parse_arguments(ordered_json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (ordered_json& call : message["tool_calls"]) {
    ordered_json& function = call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("arguments") || !function["arguments"].is_string()) continue;
    ordered_json parsed = ordered_json::parse(function["arguments"].get<std::string>(), nullptr, false);
    if (parsed.is_object()) function["arguments"] = std::move(parsed);
  }
}

// Parts of text become one string, each on lines of its own.
void join_parts(ordered_json& content) {
  const auto is_text = [](const ordered_json& part) {
    return part.is_object() && part.value("type", "") == "text" && part.contains("text") && part["text"].is_string();
  };
  if (!content.is_array() || !std::all_of(content.begin(), content.end(), is_text)) return;
  std::string text;
  for (const ordered_json& part : content) text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  content = text;
}

ordered_json shaped(ordered_json message, const TemplateShape& shape) {
  if (shape.parse_arguments) parse_arguments(message);
  if (!message.contains("content")) return message;
  if (shape.join_parts) join_parts(message["content"]);
  if (shape.null_as_empty && message["content"].is_null()) message["content"] = "";
  return message;
}

Value message_value(const ordered_json& message) {
  auto dict = std::make_shared<jinja::Dict>();
  for (const auto& [key, field] : message.items()) {
    const bool is_trusted = key == "role" && is_known_role(field);
    dict->set(Text(key), jinja::from_json(field, is_trusted ? Text::Origin::trusted : Text::Origin::user));
  }
  return jinja::DictRef(std::move(dict));
}

Value list_or_none(const ordered_json& list) {
  return list.empty() ? Value() : jinja::from_json(list, Text::Origin::user);
}

void add_token(jinja::Context& context, const char* name, const Tokenizer& tokenizer, std::optional<int32_t> id) {
  context.emplace_back(name, Value(id ? tokenizer.piece(*id) : std::string_view()));
}

}  // namespace

Result<jinja::Context> template_context(const Chat& chat, const TemplateShape& shape, const Tokenizer& tokenizer) {
  jinja::Context context;
  try {
    std::vector<Value> messages;
    for (const ordered_json& message : chat.messages) {
      if (!message.is_object() || !message.contains("role")) {
        return Error{"[chat] messages: each one is an object with a role and a content"};
      }
      messages.push_back(message_value(shaped(message, shape)));
    }
    context.emplace_back("messages", jinja::make_list(std::move(messages)));
    context.emplace_back("tools", list_or_none(chat.tools));
    context.emplace_back("documents", list_or_none(chat.documents));
    context.emplace_back("add_generation_prompt", chat.add_generation_prompt);
    add_token(context, "bos_token", tokenizer, tokenizer.bos());
    add_token(context, "eos_token", tokenizer, tokenizer.eos());
    for (const auto& [name, value] : chat.variables.items()) {
      context.emplace_back(name, jinja::from_json(value, Text::Origin::user));
    }
  } catch (const jinja::TemplateError& error) {
    return Error{std::string("[chat] ") + error.what()};
  }
  return context;
}

}  // namespace smelt
