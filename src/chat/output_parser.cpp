#include "chat/output_parser.h"

#include <algorithm>

#include "chat/call_values.h"
#include "chat/harmony_parser.h"
#include "chat/json_follower.h"
#include "chat/tagged_parser.h"

namespace smelt {

void Output::append(const Output& more) {
  reasoning += more.reasoning;
  content += more.content;
  auto next = more.calls.begin();
  if (more.continues_call && !calls.empty()) {
    calls.back().arguments += next->arguments;
    calls.back().is_whole = next->is_whole;
    ++next;
  } else if (calls.empty()) {
    continues_call = more.continues_call;
  }
  calls.insert(calls.end(), next, more.calls.end());
}

void Output::begin_call(std::string name, std::string id) {
  calls.push_back({.name = std::move(name), .id = std::move(id)});
}

void Output::grow_call(std::string_view arguments) { open_call().arguments += arguments; }

void Output::end_call() { open_call().is_whole = true; }

ToolCall& Output::open_call() {
  if (calls.empty()) {
    continues_call = true;
    calls.emplace_back();
  }
  return calls.back();
}

std::unique_ptr<OutputParser> OutputParser::make(const OutputFormat& format, OutputOptions options) {
  if (format.calls == CallStyle::harmony) return std::make_unique<HarmonyParser>();
  return std::make_unique<TaggedParser>(format, std::move(options));
}

Output OutputParser::push(std::string_view text) {
  Output out;
  for (char byte : text) take(byte, out);
  return out;
}

Output OutputParser::finish(TextEnd how) {
  Output out;
  end(how, out);
  return out;
}

// A cut text is closed behind the last of its values that is complete.
nlohmann::ordered_json arguments_of(const ToolCall& call) {
  auto value = parse_json(call.arguments);
  if (value.is_object()) return value;
  JsonFollower json;
  std::string open, closing;  // the brackets that close what is open, the outermost first; the same where `size` ends
  size_t size = 0;
  for (size_t at = 0; at < call.arguments.size(); ++at) {
    const char byte = call.arguments[at];
    const int depth = json.depth();
    json.take(byte);
    if (json.depth() > depth) open += byte == '{' ? '}' : ']';
    if (json.depth() < depth) open.pop_back();
    const bool is_comma = !json.in_string() && byte == ',';
    if (!is_comma && json.depth() == depth) continue;
    size = is_comma ? at : at + 1;
    closing = open;
  }
  std::reverse(closing.begin(), closing.end());
  value = parse_json(call.arguments.substr(0, size) + closing);
  return value.is_object() ? value : nlohmann::ordered_json::object();
}

}  // namespace smelt
