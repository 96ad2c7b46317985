#include "jinja/json.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "jinja/error.h"
#include "jinja/interpreter.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"
#include "text/utf8.h"

namespace smelt::jinja {
namespace {

void append_escape(std::string& out, uint32_t unit) {
  char buffer[12];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", unit);
  out += buffer;
}

void append_ascii(std::string& out, uint32_t codepoint) {
  if (codepoint < 0x10000) return append_escape(out, codepoint);
  append_escape(out, 0xD800 + ((codepoint - 0x10000) >> 10));
  append_escape(out, 0xDC00 + ((codepoint - 0x10000) & 0x3FF));
}

std::string in_quotes(std::string_view text, bool ascii) {
  static constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  std::string out = "\"";
  for (size_t pos = 0; pos < text.size();) {
    const Character c = character_at(text, pos);
    if (const size_t at = kSpecial.find(text[pos]); at != kSpecial.npos) {
      out += '\\';
      out += kLetters[at];
    } else if (c.codepoint < 0x20) {
      append_escape(out, c.codepoint);
    } else if (ascii && c.codepoint >= 0x80) {
      append_ascii(out, c.codepoint);
    } else {
      out += text.substr(pos, c.end - pos);
    }
    pos = c.end;
  }
  return out + '"';
}

class Writer {
 public:
  Writer(Interpreter& interpreter, const JsonStyle& style) : interpreter_(interpreter), style_(style) {}

  Text run(const Value& value) {
    write(value);
    return std::move(out_);
  }

 private:
  void write(const Value& value) {
    interpreter_.charge(1);
    if (value.is_text()) {
      interpreter_.charge_bytes(out_.size() / 64 + value.text().size());
      out_.append(value.text().as_plain().remade(in_quotes(value.bytes(), style_.ascii)));
    } else if (value.is_dict()) {
      write(*value.dict());
    } else if (value.is_sequence() &&
               (value.sequence()->is_tuple() || value.sequence()->type == Sequence::Type::list)) {
      write(*value.sequence());
    } else {
      out_.append(scalar(value));
    }
    if (out_.size() > interpreter_.limits().output) interpreter_.charge_bytes(out_.size());
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_integral()) return std::to_string(value.integer());
    if (!value.is_number()) fail("a " + std::string(type_name(value)) + " has no form in JSON");
    const std::string text = float_repr(value.number());
    if (text == "nan") return "NaN";
    return text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
  }

  void write(const Sequence& sequence) {
    if (sequence.items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      begin_item(i);
      write(sequence.items[i]);
    }
    end_items("]");
  }

  void write(const Dict& dict) {
    if (dict.size() == 0) return out_.append("{}");
    std::vector<Dict::Entry> entries = dict.entries();
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    }
    out_.append("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      begin_item(i);
      write_key(entries[i].first);
      out_.append(style_.key_separator);
      write(entries[i].second);
    }
    end_items("}");
  }

  void write_key(const Value& key) {
    if (key.is_text()) return write(key);
    if (key.is_sequence() || key.is_object() || key.is_undefined()) fail("JSON has strings as keys");
    out_.append("\"" + scalar(key) + "\"");
  }

  void begin_item(size_t i) {
    if (i > 0) out_.append(style_.item_separator);
    new_line();
  }

  void end_items(std::string_view close) {
    --level_;
    new_line();
    out_.append(close);
  }

  void new_line() {
    if (!style_.indent) return;
    out_.append("\n");
    for (int i = 0; i < level_; ++i) out_.append(*style_.indent);
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
  Text out_;
  int level_ = 0;
};

Value from_json_at(const nlohmann::ordered_json& json, Text::Origin origin, int depth) {
  if (depth > kMaxNesting)
    fail("the JSON of the chat is nested deeper than " + std::to_string(kMaxNesting) + " levels");
  switch (json.type()) {
    case nlohmann::json::value_t::boolean: return json.get<bool>();
    case nlohmann::json::value_t::number_integer: return json.get<int64_t>();
    case nlohmann::json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      return number <= INT64_MAX ? Value(static_cast<int64_t>(number)) : Value(static_cast<double>(number));
    }
    case nlohmann::json::value_t::number_float: return json.get<double>();
    case nlohmann::json::value_t::string: return Text(to_valid_utf8(json.get_ref<const std::string&>()), origin);
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(from_json_at(item, origin, depth + 1));
      return make_list(std::move(items));
    }
    case nlohmann::json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, value] : json.items()) {
        dict->set(Text(to_valid_utf8(key), origin), from_json_at(value, origin, depth + 1));
      }
      return DictRef(std::move(dict));
    }
    default: return {};
  }
}

}  // namespace

Text to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  return Writer(interpreter, style).run(value);
}

Value from_json(const nlohmann::ordered_json& json, Text::Origin origin) { return from_json_at(json, origin, 1); }

}  // namespace smelt::jinja
