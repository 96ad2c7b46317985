#include "chat/harmony_parser.h"

#include "chat/call_values.h"

namespace smelt {
namespace {

const std::vector<std::string_view>& marks() {
  static const std::vector<std::string_view> all = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                                    "<|end|>",   "<|call|>",    "<|return|>"};
  return all;
}

constexpr std::string_view kFunctions = "functions.";

// The word behind a sign in a header; empty where the sign is not in it.
std::string_view word_after(std::string_view header, std::string_view sign) {
  const size_t at = header.find(sign);
  if (at == header.npos) return {};
  const std::string_view rest = header.substr(at + sign.size());
  return rest.substr(0, rest.find_first_of(" \n\t<"));
}

std::string tool_name(std::string_view header) {
  std::string_view name = word_after(header, "to=");
  if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
  return std::string(name);
}

}  // namespace

void HarmonyParser::take(char byte, Output& out) {
  finder_.push(
      byte, marks, [&](std::string_view mark) { on_mark(mark, out); }, [&](char plain) { on_byte(plain, out); });
}

void HarmonyParser::on_mark(std::string_view mark, Output& out) {
  if (mark == "<|message|>" && state_ == State::header) return begin_body(out);
  if (state_ == State::header && (mark == "<|channel|>" || mark == "<|constrain|>")) {
    header_ += mark;
    return;
  }
  end_message(TextEnd::complete, out);
  // A header may follow without <|start|>.
  if (mark == "<|channel|>") header_ = mark;
}

void HarmonyParser::begin_body(Output& out) {
  const std::string_view recipient = word_after(header_, "to="), channel = word_after(header_, "<|channel|>");
  if (!recipient.empty()) {
    state_ = State::call;
  } else if (channel == "analysis") {
    state_ = State::thoughts;
    if (wrote_thoughts_) out.reasoning += '\n';
  } else {
    state_ = State::content;
    if (wrote_content_) out.content += '\n';
  }
}

void HarmonyParser::on_byte(char byte, Output& out) {
  switch (state_) {
    case State::header: header_ += byte; break;
    case State::call: call_byte(byte, out); break;
    case State::thoughts:
      out.reasoning += byte;
      wrote_thoughts_ = true;
      break;
    case State::content:
      out.content += byte;
      wrote_content_ = true;
      break;
  }
}

void HarmonyParser::call_byte(char byte, Output& out) {
  if (arguments_ && !arguments_->is_over()) return arguments_->take(byte, out);
  if (!arguments_ && byte == '{' && trimmed(body_).empty()) {
    out.begin_call(tool_name(header_), "");
    return arguments_.emplace().take(byte, out);
  }
  body_ += byte;
}

void HarmonyParser::end_message(TextEnd how, Output& out) {
  const bool has_nothing = state_ == State::call && !arguments_ && trimmed(body_).empty();
  if (has_nothing && how == TextEnd::complete) {
    out.begin_call(tool_name(header_), "");
    out.grow_call("{}");
    out.end_call();
  } else if (state_ == State::call && !trimmed(body_).empty()) {
    out.content += body_;
  }
  header_.clear();
  body_.clear();
  arguments_.reset();
  state_ = State::header;
}

void HarmonyParser::end(TextEnd how, Output& out) {
  for (char byte : finder_.take_rest()) on_byte(byte, out);
  const bool is_bare_text = state_ == State::header && header_.find("<|channel|>") == header_.npos && !wrote_content_;
  if (is_bare_text && header_ != "assistant") out.content += header_;
  end_message(how, out);
}

}  // namespace smelt
