#include "chat/tagged_parser.h"

#include <algorithm>

#include "chat/call_marks.h"
#include "chat/json_call_reader.h"

namespace smelt {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool has_json_body(CallStyle style) {
  return style == CallStyle::json_in_tags || style == CallStyle::llama3 || style == CallStyle::mistral ||
         style == CallStyle::command;
}

}  // namespace

TaggedParser::TaggedParser(const OutputFormat& format, OutputOptions options)
    : format_(format), options_(std::move(options)) {
  const CallMarks marks = call_marks(format_.calls);
  call_begins_ = marks.begins;
  call_ends_ = marks.ends;
  ignored_ = marks.ignored;
  if (!options_.starts_in_thoughts) return;
  state_ = State::thoughts;
  skips_spaces_ = true;
}

// Those that mean something here. End marks without a beginning are dropped from content.
std::vector<std::string_view> TaggedParser::marks() const {
  if (state_ == State::call && json_.in_string()) return {};
  std::vector<std::string_view> all = call_begins_;
  all.insert(all.end(), call_ends_.begin(), call_ends_.end());
  if (state_ == State::call) {
    if (opened_by_ == kFunctionMark) all.push_back("</function>");
    // Inside <tool_call> a function is part of the body.
    if (opened_by_ != kFunctionMark) std::erase(all, kFunctionMark);
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
    if (state_ == State::call) end_call("", TextEnd::complete, out);
    return begin_call(mark, out);
  }
  if (state_ == State::call) return end_call(mark, TextEnd::complete, out);
  if (is_one_of(call_ends_) || is_one_of(ignored_)) return;
  spaces_.clear();
  skips_spaces_ = true;
  state_ = mark == format_.think_begin ? State::thoughts : State::content;
}

void TaggedParser::begin_call(std::string_view mark, Output& out) {
  before_call_ = state_;
  state_ = State::call;
  opened_by_ = mark;
  if (mark.empty())
    reader_ = std::make_unique<JsonCallReader>(JsonCallReader::Options{.only = &options_.tools});
  else
    reader_ = CallReader::make(format_.calls, options_.tools);
  json_ = {};
  // This mark is the begin of a call's name, too.
  if (mark == kFunctionMark)
    for (char byte : mark) reader_->take(byte, out);
}

void TaggedParser::end_call(std::string_view mark, TextEnd how, Output& out) {
  const std::string no_call = reader_->end(how, out);
  if (reader_->calls() > 0) {
    state_ = State::content;
    spaces_.clear();
    skips_spaces_ = true;
    for (char byte : no_call) write(byte, out);
    return;
  }
  state_ = before_call_;
  const std::string opening = opened_by_ == kFunctionMark ? "" : opened_by_;
  for (char byte : opening + no_call + std::string(mark)) write(byte, out);
}

// Llama 3 writes nothing around a call: an answer that begins with a brace may be one.
bool TaggedParser::begins_bare_call(char byte) const {
  return format_.calls == CallStyle::llama3 && byte == '{' && state_ == State::content && !wrote_content_ &&
         !options_.tools.empty();
}

void TaggedParser::on_byte(char byte, Output& out) {
  if (begins_bare_call(byte)) begin_call("", out);
  if (state_ != State::call) return write(byte, out);
  reader_->take(byte, out);
  if (!has_json_body(format_.calls)) return;
  const int depth = json_.depth();
  json_.take(byte);
  const bool ends_bare_call = opened_by_.empty() && depth == 1 && json_.depth() == 0;
  if (ends_bare_call) end_call("", TextEnd::complete, out);
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

void TaggedParser::end(TextEnd how, Output& out) {
  for (char byte : finder_.take_rest()) on_byte(byte, out);
  if (state_ == State::call) end_call("", how, out);
  if (state_ == State::content) out.content += spaces_;
}

}  // namespace smelt
