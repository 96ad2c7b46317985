#include "chat/gemma_call_reader.h"

#include "chat/call_values.h"

namespace smelt {

void GemmaCallReader::take(char byte, Output& out) {
  static const std::vector<std::string_view> quote = {"<|\"|>"}, none;
  finder_.push(
      byte, [&]() -> const auto& { return containers_.empty() ? none : quote; },
      [&](std::string_view) { on_quote(out); }, [&](char plain) { on_byte(plain, out); });
}

void GemmaCallReader::on_byte(char byte, Output& out) {
  if (containers_.empty()) return on_head(byte, out);
  if (in_string_) return out.grow_call(json_escaped(byte));
  if (in_key_) {
    bare_ += byte;
    return;
  }
  switch (byte) {
    case '{':
    case '[': return open(byte, out);
    case '}':
    case ']': return close(out);
    case ',': return end_entry(out);
    default: break;
  }
  if (byte == ':' && wants_key()) return begin_key(out);
  if (!bare_.empty() || kCallSpaces.find(byte) == kCallSpaces.npos) bare_ += byte;
}

void GemmaCallReader::on_head(char byte, Output& out) {
  text_ += byte;
  if (byte != '{' || has_brace_) return;
  has_brace_ = true;
  std::string_view name = trimmed(std::string_view(text_).substr(0, text_.size() - 1));
  if (name.starts_with("call:")) name.remove_prefix(5);
  if (!is_tool_name(trimmed(name))) return;
  begin_call(std::string(trimmed(name)), "", out);
  text_.clear();
  out.grow_call("{");
  containers_.push_back({});
}

// Quotes of keys are left out here: begin_key() writes them.
void GemmaCallReader::on_quote(Output& out) {
  if (in_string_) {
    out.grow_call("\"");
    in_string_ = false;
    return;
  }
  if (wants_key()) {
    in_key_ = !in_key_;
    return;
  }
  begin_value(out);
  out.grow_call("\"");
  in_string_ = true;
}

void GemmaCallReader::begin_key(Output& out) {
  out.grow_call((containers_.back().has_entries ? "," : "") + json_text(std::string(trimmed(bare_))) + ":");
  bare_.clear();
  containers_.back().has_entries = true;
  has_key_ = true;
}

void GemmaCallReader::begin_value(Output& out) {
  if (!has_key_ && containers_.back().has_entries) out.grow_call(",");
  containers_.back().has_entries = true;
  has_value_ = true;
}

void GemmaCallReader::open(char bracket, Output& out) {
  begin_value(out);
  out.grow_call({&bracket, 1});
  containers_.push_back({.close = bracket == '{' ? '}' : ']'});
  bare_.clear();
  has_key_ = has_value_ = false;
}

// A key without a value gets none.
void GemmaCallReader::end_entry(Output& out) {
  in_key_ = false;
  if (wants_key() && !trimmed(bare_).empty()) begin_key(out);
  const std::string_view bare = trimmed(bare_);
  if (!has_value_ && (has_key_ || !bare.empty())) {
    begin_value(out);
    out.grow_call(bare.empty() ? "null" : json_text(untyped_value(bare)));
  }
  bare_.clear();
  has_key_ = has_value_ = false;
}

void GemmaCallReader::close(Output& out) {
  end_entry(out);
  out.grow_call({&containers_.back().close, 1});
  containers_.pop_back();
  if (containers_.empty()) return out.end_call();
  has_key_ = containers_.back().close == '}';
  has_value_ = true;
}

std::string GemmaCallReader::end(TextEnd how, Output& out) {
  if (how == TextEnd::cut && !containers_.empty()) return {};
  for (char byte : finder_.take_rest()) on_byte(byte, out);
  if (in_string_) on_quote(out);
  while (!containers_.empty()) close(out);
  if (!has_brace_ && how == TextEnd::complete) {
    on_head('{', out);
    if (!containers_.empty()) close(out);
    if (!is_over()) text_.pop_back();
  }
  return trimmed(text_).empty() ? "" : text_;
}

}  // namespace smelt
