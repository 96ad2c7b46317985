#include "chat/json_call_reader.h"

#include "chat/call_values.h"

namespace smelt {
namespace {

using nlohmann::ordered_json;

constexpr const char* kArgumentNames[] = {"arguments", "parameters", "args"};
constexpr std::string_view kBetweenCalls = " \t\r\n,;[]";

struct ReadCall {
  std::string name, id;
  ordered_json arguments = ordered_json::object();
};

// {"name": "f", "arguments": {...}} with the spellings of the families.
std::optional<ReadCall> call_of(const ordered_json& object) {
  if (!object.is_object()) return std::nullopt;
  const ordered_json& call =
      object.contains("function") && object["function"].is_object() ? object["function"] : object;
  const char* const name = call.contains("tool_name") ? "tool_name" : "name";
  if (!call.contains(name) || !call[name].is_string()) return std::nullopt;
  ReadCall out{.name = call[name].get<std::string>(), .id = {}};
  if (!is_tool_name(out.name)) return std::nullopt;
  for (const char* key : kArgumentNames) {
    if (!call.contains(key)) continue;
    out.arguments = call[key];
    break;
  }
  if (out.arguments.is_string()) out.arguments = parse_json(out.arguments.get<std::string>());
  if (out.arguments.is_null()) out.arguments = ordered_json::object();
  if (!out.arguments.is_object()) return std::nullopt;
  for (const char* id : {"id", "tool_call_id"})
    if (object.contains(id) && object[id].is_string()) out.id = object[id].get<std::string>();
  return out;
}

// Whether a text ends with the name of arguments and a colon.
bool ends_with_name_of_arguments(std::string_view text) {
  text = trimmed(text);
  if (!text.ends_with(':')) return false;
  text = trimmed(text.substr(0, text.size() - 1));
  for (const char* name : kArgumentNames)
    if (text.ends_with('"' + std::string(name) + '"')) return true;
  return false;
}

}  // namespace

void JsonCallReader::take(char byte, Output& out) {
  const int depth = json_.depth();
  json_.take(byte);
  if (state_ == State::arguments) {
    arguments_->take(byte, out);
    if (arguments_->is_over()) state_ = State::rest;
    return;
  }
  if (state_ == State::rest) {
    if (json_.depth() == outer_depth_) state_ = State::between;
    return;
  }
  text_ += byte;
  const bool opens = byte == '{' && json_.depth() > depth;
  if (state_ == State::between && opens) {
    begin_ = text_.size() - 1;
    outer_depth_ = depth;
    begin_object();
  } else if (state_ == State::object && opens && !options_.id_may_follow) {
    begin_arguments(out);
  } else if (state_ == State::object && json_.depth() == outer_depth_) {
    end_object(out);
  }
}

bool JsonCallReader::may_be_called(const std::string& name) const {
  return !options_.only || has_tool(*options_.only, name);
}

void JsonCallReader::begin_object() {
  const bool follows_calls = text_.find_first_not_of(kBetweenCalls) == begin_;
  state_ = follows_calls ? State::object : State::no_call;
}

// Where the name is known already: what stands before the brace is an object but for its end.
void JsonCallReader::begin_arguments(Output& out) {
  const std::string_view head = std::string_view(text_).substr(begin_);
  if (!ends_with_name_of_arguments(head.substr(0, head.size() - 1))) return;
  const auto open = static_cast<size_t>(json_.depth() - outer_depth_);
  auto call = call_of(parse_json(std::string(head) + std::string(open, '}')));
  if (!call || !may_be_called(call->name)) return;
  begin_call(std::move(call->name), std::move(call->id), out);
  text_.clear();
  arguments_.emplace().take('{', out);
  state_ = State::arguments;
}

void JsonCallReader::end_object(Output& out) {
  auto call = call_of(parse_json(std::string_view(text_).substr(begin_)));
  const bool is_call = call && may_be_called(call->name);
  state_ = is_call ? State::between : State::no_call;
  if (!is_call) return;
  add_call(std::move(call->name), std::move(call->id), json_text(call->arguments), out);
  text_.clear();
}

std::string JsonCallReader::end(TextEnd, Output&) {
  const bool has_only_calls = calls() > 0 && text_.find_first_not_of(kBetweenCalls) == text_.npos;
  return has_only_calls ? "" : text_;
}

}  // namespace smelt
