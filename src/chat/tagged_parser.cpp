#include "chat/tagged_parser.h"

#include <algorithm>

#include "chat/call_body.h"

namespace smelt {
namespace {

constexpr std::string_view kFunction = "<function=";

struct CallMarks {
  std::vector<std::string_view> begins, ends, ignored;
};

CallMarks marks_of(CallStyle style) {
  switch (style) {
    case CallStyle::none:
    case CallStyle::harmony: return {};
    case CallStyle::json_in_tags:
    case CallStyle::glm: return {{"<tool_call>"}, {"</tool_call>"}, {}};
    case CallStyle::qwen_coder: return {{"<tool_call>", kFunction}, {"</tool_call>"}, {}};
    case CallStyle::llama3: return {{"<|python_tag|>"}, {}, {}};
    case CallStyle::mistral: return {{"[TOOL_CALLS]"}, {}, {}};
    case CallStyle::deepseek:
      return {{"<｜tool▁call▁begin｜>"}, {"<｜tool▁call▁end｜>"}, {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}};
    case CallStyle::gemma: return {{"<|tool_call>"}, {"<tool_call|>"}, {}};
    case CallStyle::kimi:
      return {{"<|tool_call_begin|>"},
              {"<|tool_call_end|>"},
              {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}};
    case CallStyle::seed: return {{"<seed:tool_call>", kFunction}, {"</seed:tool_call>"}, {}};
    case CallStyle::command:
      return {{"<|START_ACTION|>"}, {"<|END_ACTION|>"}, {"<|START_RESPONSE|>", "<|END_RESPONSE|>"}};
    case CallStyle::dsml: return {{"<｜DSML｜function_calls>"}, {"</｜DSML｜function_calls>"}, {}};
  }
  return {};
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool has_json_body(CallStyle style) {
  return style == CallStyle::json_in_tags || style == CallStyle::llama3 || style == CallStyle::mistral ||
         style == CallStyle::command;
}

}  // namespace

TaggedParser::TaggedParser(const OutputFormat& format, OutputOptions options)
    : format_(format), options_(std::move(options)) {
  const CallMarks marks = marks_of(format_.calls);
  call_begins_ = marks.begins;
  call_ends_ = marks.ends;
  ignored_ = marks.ignored;
  if (!options_.starts_in_thoughts) return;
  state_ = State::thoughts;
  skips_spaces_ = true;
}

// Those that mean something here. End marks without a beginning are dropped from content.
std::vector<std::string_view> TaggedParser::marks() const {
  if (state_ == State::call && in_string_) return {};
  std::vector<std::string_view> all = call_begins_;
  all.insert(all.end(), call_ends_.begin(), call_ends_.end());
  if (state_ == State::call) {
    if (opened_by_ == kFunction) all.push_back("</function>");
    // Inside <tool_call> a function is part of the body.
    if (opened_by_ != kFunction) std::erase(all, kFunction);
    return all;
  }
  all.insert(all.end(), ignored_.begin(), ignored_.end());
  if (!format_.think_begin.empty()) all.insert(all.end(), {format_.think_begin, format_.think_end});
  return all;
}

void TaggedParser::take(char byte, Output& out) {
  finder_.push(
      byte, [this] { return marks(); }, [&](std::string_view mark) { on_mark(mark, out); },
      [&](char plain) { on_byte(plain, out); });
}

void TaggedParser::on_mark(std::string_view mark, Output& out) {
  const auto is_one_of = [&](const auto& list) { return std::find(list.begin(), list.end(), mark) != list.end(); };
  if (is_one_of(call_begins_)) {
    if (state_ == State::call) end_call("", out);
    return begin_call(mark);
  }
  if (state_ == State::call) return end_call(mark, out);
  if (is_one_of(call_ends_) || is_one_of(ignored_)) return;
  spaces_.clear();
  skips_spaces_ = true;
  state_ = mark == format_.think_begin ? State::thoughts : State::content;
}

void TaggedParser::begin_call(std::string_view mark) {
  before_call_ = state_;
  state_ = State::call;
  opened_by_ = mark;
  body_ = mark == kFunction ? kFunction : "";
  in_string_ = escaped_ = false;
  depth_ = 0;
}

void TaggedParser::end_call(std::string_view mark, Output& out) {
  state_ = before_call_;
  auto calls = read_calls(format_.calls, body_, options_.tools);
  if (calls) {
    std::move(calls->begin(), calls->end(), std::back_inserter(out.calls));
    state_ = State::content;
    spaces_.clear();
    skips_spaces_ = true;
    return;
  }
  const std::string opening = opened_by_ == kFunction ? "" : opened_by_;
  for (char byte : opening + body_ + std::string(mark)) write(byte, out);
}

// Llama 3 writes nothing around a call: an answer that begins with a brace may be one.
bool TaggedParser::begins_bare_call(char byte) const {
  return format_.calls == CallStyle::llama3 && byte == '{' && state_ == State::content && !wrote_content_ &&
         !options_.tools.empty();
}

void TaggedParser::on_byte(char byte, Output& out) {
  if (begins_bare_call(byte)) begin_call("");
  if (state_ != State::call) return write(byte, out);
  body_ += byte;
  if (!has_json_body(format_.calls)) return;
  const int depth = depth_;
  follow_json(byte);
  const bool ends_bare_call = opened_by_.empty() && depth == 1 && depth_ == 0;
  if (ends_bare_call) end_call("", out);
}

// Marks inside of strings are part of them.
void TaggedParser::follow_json(char byte) {
  if (escaped_) {
    escaped_ = false;
  } else if (in_string_) {
    escaped_ = byte == '\\';
    in_string_ = byte != '"';
  } else if (byte == '"') {
    in_string_ = depth_ > 0;
  } else if (byte == '{' || byte == '[') {
    ++depth_;
  } else if ((byte == '}' || byte == ']') && depth_ > 0) {
    --depth_;
  }
}

void TaggedParser::write(char byte, Output& out) {
  const bool between_bare_calls = format_.calls == CallStyle::llama3 && skips_spaces_ && byte == ';';
  if (is_space(byte) || between_bare_calls) {
    if (!skips_spaces_) spaces_ += byte;
    return;
  }
  std::string& to = state_ == State::thoughts ? out.reasoning : out.content;
  to += spaces_ + byte;
  wrote_content_ |= state_ == State::content;
  spaces_.clear();
  skips_spaces_ = false;
}

void TaggedParser::end(Output& out) {
  for (char byte : finder_.take_rest()) on_byte(byte, out);
  if (state_ == State::call) end_call("", out);
  if (state_ == State::content) out.content += spaces_;
}

}  // namespace smelt
