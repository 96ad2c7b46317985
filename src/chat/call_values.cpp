#include "chat/call_values.h"

#include "chat/json_follower.h"

namespace smelt {

using nlohmann::ordered_json;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kCallSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kCallSpaces) - begin + 1);
}

std::string_view take_until(std::string_view& rest, std::string_view mark) {
  const size_t at = rest.find(mark);
  const std::string_view part = rest.substr(0, at);
  rest = at == rest.npos ? std::string_view() : rest.substr(at + mark.size());
  return part;
}

bool is_tool_name(std::string_view text) {
  return !text.empty() && text.size() <= 256 && text.find_first_of(" \t\r\n{}<>\"") == text.npos;
}

ordered_json parse_json(std::string_view text) {
  constexpr int kMostDepth = 128;
  JsonFollower follower;
  for (char c : text) {
    follower.take(c);
    if (follower.depth() > kMostDepth) return ordered_json(ordered_json::value_t::discarded);
  }
  return ordered_json::parse(text, nullptr, false);
}

std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string json_escaped(char byte) {
  if (byte != '"' && byte != '\\' && static_cast<unsigned char>(byte) >= 0x20) return {byte};
  const std::string quoted = json_text(std::string(1, byte));
  return quoted.substr(1, quoted.size() - 2);
}

namespace {

// Of a list in OpenAI's shape, or of functions alone.
const ordered_json* find_tool(const ordered_json& tools, std::string_view name) {
  for (const ordered_json& entry : tools) {
    const ordered_json& function = entry.contains("function") ? entry["function"] : entry;
    if (function.is_object() && function.value("name", "") == name) return &function;
  }
  return nullptr;
}

}  // namespace

bool has_tool(const ordered_json& tools, std::string_view name) { return find_tool(tools, name) != nullptr; }

std::string declared_type(const ordered_json& tools, std::string_view tool, std::string_view argument) {
  const ordered_json* function = find_tool(tools, tool);
  const auto at = ordered_json::json_pointer("/parameters/properties") / std::string(argument) / "type";
  if (!function || !function->contains(at) || !(*function)[at].is_string()) return {};
  return (*function)[at].get<std::string>();
}

ordered_json untyped_value(std::string_view text) {
  ordered_json value = parse_json(trimmed(text));
  if (!value.is_discarded()) return value;
  if (text == "True" || text == "False") return text == "True";
  if (text == "None") return nullptr;
  return std::string(text);
}

}  // namespace smelt
