#include "chat/call_body.h"

#include <algorithm>

namespace smelt {
namespace {

using nlohmann::ordered_json;
using Calls = std::optional<std::vector<ToolCall>>;

constexpr std::string_view kSpaces = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The text up to a mark; `rest` begins behind it. Without the mark: all of it.
std::string_view take_until(std::string_view& rest, std::string_view mark) {
  const size_t at = rest.find(mark);
  const std::string_view part = rest.substr(0, at);
  rest = at == rest.npos ? std::string_view() : rest.substr(at + mark.size());
  return part;
}

bool skip(std::string_view& rest, std::string_view mark) {
  if (!rest.starts_with(mark)) return false;
  rest.remove_prefix(mark.size());
  return true;
}

// Discarded where the text is no JSON, or nested deeper than anybody means.
ordered_json parse(std::string_view text) {
  constexpr int kMostDepth = 128;
  int depth = 0;
  for (char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMostDepth) return ordered_json(ordered_json::value_t::discarded);
  }
  return ordered_json::parse(text, nullptr, false);
}

// The type that the schema of a tool gives an argument; empty where it says nothing.
std::string declared_type(const ordered_json& tools, std::string_view tool, std::string_view argument) {
  for (const ordered_json& entry : tools) {
    const ordered_json& function = entry.contains("function") ? entry["function"] : entry;
    if (!function.is_object() || function.value("name", "") != tool) continue;
    const auto at = ordered_json::json_pointer("/parameters/properties") / std::string(argument) / "type";
    if (function.contains(at) && function[at].is_string()) return function[at].get<std::string>();
  }
  return {};
}

// A value without quotes: text where the schema says so, else JSON where it is some.
ordered_json untyped_value(std::string_view text, const std::string& type) {
  if (type == "string") return std::string(text);
  ordered_json value = parse(trimmed(text));
  if (!value.is_discarded()) return value;
  if (text == "True" || text == "False") return text == "True";
  if (text == "None") return nullptr;
  return std::string(text);
}

// {"name": "f", "arguments": {...}} with the spellings of the families.
std::optional<ToolCall> call_of(const ordered_json& object) {
  if (!object.is_object()) return std::nullopt;
  const ordered_json& call =
      object.contains("function") && object["function"].is_object() ? object["function"] : object;
  const char* const name = call.contains("tool_name") ? "tool_name" : "name";
  if (!call.contains(name) || !call[name].is_string()) return std::nullopt;
  ToolCall out{.name = call[name].get<std::string>()};
  if (!is_tool_name(out.name)) return std::nullopt;
  for (const char* key : {"arguments", "parameters", "args"}) {
    if (!call.contains(key)) continue;
    out.arguments = call[key];
    break;
  }
  if (out.arguments.is_string()) out.arguments = parse(out.arguments.get<std::string>());
  if (out.arguments.is_null()) out.arguments = ordered_json::object();
  if (!out.arguments.is_object()) return std::nullopt;
  for (const char* id : {"id", "tool_call_id"})
    if (object.contains(id) && object[id].is_string()) out.id = object[id].get<std::string>();
  return out;
}

// JSON values one after the other, each a call or a list of them.
Calls json_calls(std::string_view body) {
  std::vector<ToolCall> calls;
  for (std::string_view rest = trimmed(body); !rest.empty();) {
    const size_t end = end_of_json(rest);
    if (end == rest.npos) return std::nullopt;
    const ordered_json value = parse(rest.substr(0, end));
    const ordered_json list = value.is_array() ? value : ordered_json::array({value});
    for (const ordered_json& entry : list) {
      auto call = call_of(entry);
      if (!call) return std::nullopt;
      calls.push_back(std::move(*call));
    }
    rest = trimmed(rest.substr(end));
    if (skip(rest, ";") || skip(rest, ",")) rest = trimmed(rest);
  }
  return calls;
}

Calls glm_calls(std::string_view body, const ordered_json& tools) {
  const size_t first = body.find("<arg_key>");
  ToolCall call{.name = std::string(trimmed(body.substr(0, first)))};
  if (!is_tool_name(call.name)) return std::nullopt;
  for (std::string_view rest = first == body.npos ? "" : body.substr(first); !rest.empty();) {
    take_until(rest, "<arg_key>");
    if (rest.empty()) break;
    const std::string key(trimmed(take_until(rest, "</arg_key>")));
    take_until(rest, "<arg_value>");
    const std::string_view value = take_until(rest, "</arg_value>");
    call.arguments[key] = untyped_value(value, declared_type(tools, call.name, key));
  }
  return std::vector{std::move(call)};
}

// One line end after the opening and before the closing tag are not of the value.
std::string_view without_line_ends(std::string_view value) {
  skip(value, "\r");
  skip(value, "\n");
  if (value.ends_with('\n')) value.remove_suffix(1);
  if (value.ends_with('\r')) value.remove_suffix(1);
  return value;
}

// `has_lines`: values stand in lines of their own.
Calls coder_calls(std::string_view body, const ordered_json& tools, bool has_lines) {
  std::vector<ToolCall> calls;
  for (std::string_view rest = body; rest.find("<function=") != rest.npos;) {
    take_until(rest, "<function=");
    std::string_view one = rest.substr(0, std::min(rest.find("</function>"), rest.find("<function=")));
    rest.remove_prefix(one.size());
    ToolCall call{.name = std::string(trimmed(take_until(one, ">")))};
    if (!is_tool_name(call.name)) return std::nullopt;
    while (one.find("<parameter=") != one.npos) {
      take_until(one, "<parameter=");
      const std::string key(trimmed(take_until(one, ">")));
      // A missing end tag: the value ends where the next one begins.
      const size_t end = std::min(one.find("</parameter>"), one.find("<parameter="));
      const bool is_closed = end != one.npos && one.substr(end).starts_with("</");
      std::string_view value = one.substr(0, end);
      if (has_lines || !is_closed) value = without_line_ends(value);
      call.arguments[key] = untyped_value(value, declared_type(tools, call.name, key));
      one = end == one.npos ? std::string_view() : one.substr(end);
    }
    calls.push_back(std::move(call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

// [{"name": ...}] of older models, name[CALL_ID]id[ARGS]{...} of newer ones.
Calls mistral_calls(std::string_view body) {
  body = trimmed(body);
  if (body.starts_with('[') || body.starts_with('{')) return json_calls(body);
  const size_t arguments = std::min(body.find("[ARGS]"), body.find('{'));
  if (arguments == body.npos) return std::nullopt;
  std::string_view head = body.substr(0, arguments), rest = body.substr(arguments);
  skip(rest, "[ARGS]");
  ToolCall call{
      .name = std::string(trimmed(take_until(head, "[CALL_ID]"))), .arguments = {}, .id = std::string(trimmed(head))};
  call.arguments = parse(trimmed(rest));
  if (!is_tool_name(call.name) || !call.arguments.is_object()) return std::nullopt;
  return std::vector{std::move(call)};
}

// functions.NAME:0<|tool_call_argument_begin|>{...}; what stands before the arguments is the id of the call.
Calls kimi_calls(std::string_view body) {
  std::string_view rest = body;
  const std::string_view id = trimmed(take_until(rest, "<|tool_call_argument_begin|>"));
  std::string_view name = id.substr(0, id.rfind(':'));
  skip(name, "functions.");
  ToolCall call{.name = std::string(name), .arguments = ordered_json::object(), .id = std::string(id)};
  if (!trimmed(rest).empty()) call.arguments = parse(trimmed(rest));
  if (!is_tool_name(call.name) || !call.arguments.is_object()) return std::nullopt;
  return std::vector{std::move(call)};
}

// The value of NAME="..." in a tag; empty where it has none.
std::string_view attribute(std::string_view tag, std::string_view name) {
  const std::string begin = std::string(name) + "=\"";
  const size_t at = tag.find(begin);
  if (at == tag.npos) return {};
  std::string_view rest = tag.substr(at + begin.size());
  return take_until(rest, "\"");
}

// <｜DSML｜invoke name="f"> and its parameters, each of which says whether it is text or JSON.
Calls dsml_calls(std::string_view body, const ordered_json& tools) {
  constexpr std::string_view kInvoke = "<｜DSML｜invoke", kParameter = "<｜DSML｜parameter";
  std::vector<ToolCall> calls;
  for (std::string_view rest = body; rest.find(kInvoke) != rest.npos;) {
    take_until(rest, kInvoke);
    std::string_view one = rest.substr(0, std::min(rest.find("</｜DSML｜invoke>"), rest.find(kInvoke)));
    rest.remove_prefix(one.size());
    ToolCall call{.name = std::string(attribute(take_until(one, ">"), " name"))};
    if (!is_tool_name(call.name)) return std::nullopt;
    while (one.find(kParameter) != one.npos) {
      take_until(one, kParameter);
      const std::string_view tag = take_until(one, ">");
      const std::string key(attribute(tag, " name"));
      // A missing end tag: the value ends where the next one begins.
      const size_t end = std::min(one.find("</｜DSML｜parameter>"), one.find(kParameter));
      const bool is_text = attribute(tag, " string") == "true";
      call.arguments[key] =
          untyped_value(one.substr(0, end), is_text ? "string" : declared_type(tools, call.name, key));
      one = end == one.npos ? std::string_view() : one.substr(end);
    }
    calls.push_back(std::move(call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

// function<sep>NAME\n```json\n{...}\n``` of V3 and R1, NAME<sep>{...} since V3.1.
Calls deepseek_calls(std::string_view body) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  if (body.find(kSeparator) == body.npos) return std::nullopt;
  std::string_view rest = body;
  const std::string_view head = trimmed(take_until(rest, kSeparator));
  const size_t brace = rest.find('{');
  const std::string_view before = trimmed(rest.substr(0, brace));
  ToolCall call{.name = std::string(before.empty() ? head : trimmed(before.substr(0, before.find("```"))))};
  const std::string_view json = brace == rest.npos ? std::string_view() : rest.substr(brace);
  const size_t end = end_of_json(json);
  call.arguments = brace == rest.npos ? ordered_json::object() : parse(json.substr(0, end));
  if (!is_tool_name(call.name) || !call.arguments.is_object()) return std::nullopt;
  return std::vector{std::move(call)};
}

// Gemma's notation: {k:<|"|>text<|"|>,n:1,l:[true,{...}]}, keys with or without quotes.
class GemmaReader {
 public:
  explicit GemmaReader(std::string_view text) : rest_(text) {}

  std::optional<ordered_json> object(int depth = 0) {
    if (depth > kMostDepth || !skip(rest_, "{")) return std::nullopt;
    ordered_json out = ordered_json::object();
    while (!at_end_of('}')) {
      const auto key = rest_.starts_with(kQuote) ? quoted() : bare(":");
      if (!key || !skip(rest_, ":")) return std::nullopt;
      auto value = any(depth + 1);
      if (!value) return std::nullopt;
      out[*key] = std::move(*value);
      skip_comma();
    }
    return skip(rest_, "}") ? std::optional(std::move(out)) : std::nullopt;
  }
  bool is_done() const { return trimmed(rest_).empty(); }

 private:
  static constexpr std::string_view kQuote = "<|\"|>";
  static constexpr int kMostDepth = 64;

  bool at_end_of(char close) {
    rest_ = rest_.substr(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
    return rest_.empty() || rest_.front() == close;
  }
  void skip_comma() {
    at_end_of(',');
    skip(rest_, ",");
  }

  std::optional<std::string> quoted() {
    skip(rest_, kQuote);
    if (rest_.find(kQuote) == rest_.npos) return std::nullopt;
    return std::string(take_until(rest_, kQuote));
  }
  std::optional<std::string> bare(std::string_view ends) {
    const size_t end = std::min(rest_.find_first_of(ends), rest_.size());
    const std::string text(trimmed(rest_.substr(0, end)));
    rest_.remove_prefix(end);
    return text.empty() ? std::nullopt : std::optional(text);
  }

  std::optional<ordered_json> any(int depth) {
    at_end_of(0);
    if (rest_.starts_with(kQuote)) return quoted();
    if (rest_.starts_with('{')) return object(depth);
    if (rest_.starts_with('[')) return list(depth);
    const auto text = bare(",}]");
    if (!text) return std::nullopt;
    return untyped_value(*text, "");
  }

  std::optional<ordered_json> list(int depth) {
    if (depth > kMostDepth) return std::nullopt;
    skip(rest_, "[");
    ordered_json out = ordered_json::array();
    while (!at_end_of(']')) {
      auto value = any(depth + 1);
      if (!value) return std::nullopt;
      out.push_back(std::move(*value));
      skip_comma();
    }
    return skip(rest_, "]") ? std::optional(std::move(out)) : std::nullopt;
  }

  std::string_view rest_;
};

Calls gemma_calls(std::string_view body) {
  body = trimmed(body);
  skip(body, "call:");
  const size_t brace = body.find('{');
  ToolCall call{.name = std::string(trimmed(body.substr(0, brace)))};
  if (!is_tool_name(call.name)) return std::nullopt;
  if (brace == body.npos) return std::vector{std::move(call)};
  GemmaReader reader(body.substr(brace));
  auto arguments = reader.object();
  if (!arguments || !reader.is_done()) return std::nullopt;
  call.arguments = std::move(*arguments);
  return std::vector{std::move(call)};
}

}  // namespace

bool is_tool_name(std::string_view text) {
  return !text.empty() && text.size() <= 256 && text.find_first_of(" \t\r\n{}<>\"") == text.npos;
}

size_t end_of_json(std::string_view text) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth <= 1) return i + 1;
      --depth;
    }
  }
  return text.npos;
}

Calls read_calls(CallStyle style, std::string_view body, const ordered_json& tools) {
  switch (style) {
    case CallStyle::none: return std::nullopt;
    case CallStyle::json_in_tags:
    case CallStyle::command:
    case CallStyle::llama3: {
      auto calls = json_calls(body);
      return calls && calls->empty() ? std::nullopt : calls;
    }
    case CallStyle::glm: return glm_calls(body, tools);
    case CallStyle::qwen_coder: return coder_calls(body, tools, true);
    case CallStyle::seed: return coder_calls(body, tools, false);
    case CallStyle::mistral: return mistral_calls(body);
    case CallStyle::deepseek: return deepseek_calls(body);
    case CallStyle::gemma: return gemma_calls(body);
    case CallStyle::kimi: return kimi_calls(body);
    case CallStyle::dsml: return dsml_calls(body, tools);
    case CallStyle::harmony: return std::nullopt;  // calls are messages there (harmony_parser.cpp)
  }
  return std::nullopt;
}

}  // namespace smelt
