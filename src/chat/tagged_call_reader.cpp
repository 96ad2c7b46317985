#include "chat/tagged_call_reader.h"

#include "chat/call_values.h"

namespace smelt {
namespace {

// The value of NAME="..." in a tag; empty where it has none.
std::string_view attribute(std::string_view tag, std::string_view name) {
  const std::string begin = std::string(name) + "=\"";
  const size_t at = tag.find(begin);
  if (at == tag.npos) return {};
  std::string_view rest = tag.substr(at + begin.size());
  return take_until(rest, "\"");
}

}  // namespace

TaggedCallReader::TaggedCallReader(const Tags& tags, const nlohmann::ordered_json& tools)
    : tags_(tags), tools_(tools), state_(tags.call_begin.empty() ? State::name : State::outside) {}

// A tag that is missing or crossed ends what is open.
std::vector<std::string_view> TaggedCallReader::marks() const {
  std::vector<std::string_view> all;
  const auto add = [&](std::initializer_list<std::string_view> some) {
    for (std::string_view mark : some)
      if (!mark.empty()) all.push_back(mark);
  };
  switch (state_) {
    case State::outside: add({tags_.call_begin}); break;
    case State::name: add({tags_.name_end.empty() ? tags_.entry_begin : tags_.name_end}); break;
    case State::inside: add({tags_.entry_begin, tags_.call_end, tags_.call_begin}); break;
    case State::key: add({tags_.key_end}); break;
    case State::before_value: add({tags_.value_begin}); break;
    case State::value:
      add({tags_.value_end, tags_.call_end, tags_.call_begin});
      if (tags_.value_begin.empty()) add({tags_.entry_begin});
      break;
    case State::no_call: break;
  }
  return all;
}

void TaggedCallReader::take(char byte, Output& out) {
  all_ += byte;
  finder_.push(
      byte, [this] { return marks(); }, [&](std::string_view mark) { on_mark(mark, out); },
      [&](char plain) { on_byte(plain, out); });
}

void TaggedCallReader::on_mark(std::string_view mark, Output& out) {
  if (state_ == State::name) {
    end_name(out);
    if (mark == tags_.name_end || state_ == State::no_call) return;
  }
  if (state_ == State::key) return end_key(out);
  if (state_ == State::before_value) {
    state_ = State::value;
    return;
  }
  if (state_ == State::value) end_value(mark == tags_.value_end, out);
  if (mark == tags_.entry_begin) {
    state_ = State::key;
  } else if (mark == tags_.call_end || mark == tags_.call_begin) {
    if (state_ != State::outside) end_arguments(out);
    if (mark == tags_.call_begin) state_ = State::name;
  }
}

void TaggedCallReader::on_byte(char byte, Output& out) {
  if (state_ == State::name || state_ == State::key) part_ += byte;
  if (state_ == State::value) value_byte(byte, out);
}

void TaggedCallReader::end_name(Output& out) {
  name_ = tags_.has_attributes ? attribute(part_, " name") : trimmed(part_);
  part_.clear();
  state_ = is_tool_name(name_) ? State::inside : State::no_call;
  if (state_ == State::no_call) return;
  begin_call(name_, "", out);
  out.grow_call("{");
  has_arguments_ = false;
}

void TaggedCallReader::end_key(Output& out) {
  const std::string key(tags_.has_attributes ? attribute(part_, " name") : trimmed(part_));
  is_text_ =
      (tags_.has_attributes && attribute(part_, " string") == "true") || declared_type(tools_, name_, key) == "string";
  part_.clear();
  line_end_.clear();
  skips_line_ = tags_.has_lines ? 2 : 0;
  out.grow_call((has_arguments_ ? "," : "") + json_text(key) + ":" + (is_text_ ? "\"" : ""));
  has_arguments_ = true;
  state_ = tags_.value_begin.empty() ? State::value : State::before_value;
}

// A line end is held back until something follows it.
void TaggedCallReader::value_byte(char byte, Output& out) {
  if ((byte == '\r' && skips_line_ == 2) || (byte == '\n' && skips_line_ > 0)) {
    skips_line_ = byte == '\r' ? 1 : 0;
    return;
  }
  skips_line_ = 0;
  const bool goes_on = line_end_ == "\r" && byte == '\n';
  if (!goes_on) give_line_end(out);
  if (byte == '\r' || byte == '\n')
    line_end_ += byte;
  else
    give(byte, out);
}

void TaggedCallReader::give(char byte, Output& out) {
  if (is_text_)
    out.grow_call(json_escaped(byte));
  else
    part_ += byte;
}

void TaggedCallReader::give_line_end(Output& out) {
  for (char byte : line_end_) give(byte, out);
  line_end_.clear();
}

// One line end before the closing tag is not of a value in lines of its own, or of one without that tag.
void TaggedCallReader::end_value(bool is_closed, Output& out) {
  if (is_closed && !tags_.has_lines) give_line_end(out);
  out.grow_call(is_text_ ? "\"" : json_text(untyped_value(part_)));
  part_.clear();
  state_ = State::inside;
}

void TaggedCallReader::end_arguments(Output& out) {
  out.grow_call("}");
  out.end_call();
  all_.clear();
  state_ = State::outside;
}

std::string TaggedCallReader::end(TextEnd how, Output& out) {
  const bool has_begun = state_ != State::outside && state_ != State::name && state_ != State::no_call;
  if (how == TextEnd::cut && has_begun) return {};
  if (how == TextEnd::cut) return all_;
  for (char byte : finder_.take_rest()) on_byte(byte, out);
  if (state_ == State::name && tags_.name_end.empty()) end_name(out);
  if (state_ == State::before_value) state_ = State::value;
  if (state_ == State::value) end_value(false, out);
  if (state_ == State::inside || state_ == State::key) end_arguments(out);
  return trimmed(all_).empty() ? "" : all_;
}

}  // namespace smelt
