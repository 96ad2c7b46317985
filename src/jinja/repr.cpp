#include "jinja/repr.h"

#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/utf8.h"

namespace smelt::jinja {
namespace {

// What str.isprintable() says of a character that is not ASCII.
bool is_printable(uint32_t codepoint) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(codepoint))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

std::string escaped(uint32_t codepoint) {
  char buffer[16];
  const char* format = codepoint < 0x100 ? "\\x%02x" : codepoint < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(buffer, sizeof buffer, format, codepoint);
  return buffer;
}

void append_repr(std::string& out, std::string_view bytes, uint32_t codepoint, char quote) {
  switch (codepoint) {
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\\': out += "\\\\"; return;
    default: break;
  }
  if (codepoint == static_cast<uint32_t>(quote)) out += '\\';
  const bool is_plain = codepoint < 0x80 ? codepoint >= 0x20 && codepoint != 0x7f : is_printable(codepoint);
  if (is_plain) {
    out += bytes;
  } else {
    out += escaped(codepoint);
  }
}

std::string text_repr(std::string_view text) {
  const bool double_quotes = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_at(text, pos);
    append_repr(out, text.substr(pos, c.length), c.status == Utf8::valid ? c.codepoint : 0xFFFD, quote);
    pos += c.length;
  }
  return out + quote;
}

void append_items(Text& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(to_repr(items[i]));
  }
}

Text sequence_repr(const Sequence& sequence) {
  Text out;
  switch (sequence.type) {
    case Sequence::Type::list: out.append("["); break;
    case Sequence::Type::tuple:
    case Sequence::Type::group: out.append("("); break;
    case Sequence::Type::range:
    case Sequence::Type::keys: out.append("dict_keys(["); break;
    case Sequence::Type::values: out.append("dict_values(["); break;
    case Sequence::Type::items: out.append("dict_items(["); break;
  }
  append_items(out, sequence.items);
  if (sequence.is_tuple()) {
    out.append(sequence.items.size() == 1 ? ",)" : ")");
  } else {
    out.append(sequence.type == Sequence::Type::list ? "]" : "])");
  }
  return out;
}

// range(2, 8, 3): the end is the one nearest to the last item. Ranges print as they were called; templates that print
// one are not known.
Text range_repr(const Sequence& range) {
  const auto& items = range.items;
  if (items.empty()) return Text("range(0, 0)");
  const int64_t first = items.front().integer(), last = items.back().integer();
  const int64_t step = items.size() > 1 ? items[1].integer() - first : 1;
  std::string out = "range(" + std::to_string(first) + ", " + std::to_string(last + step);
  return Text(out + (step == 1 ? ")" : ", " + std::to_string(step) + ")"));
}

Text dict_repr(const Dict& dict) {
  Text out("{");
  for (const auto& [key, value] : dict.entries()) {
    if (out.size() > 1) out.append(", ");
    out.append(to_repr(key));
    out.append(": ");
    out.append(to_repr(value));
  }
  out.append("}");
  return out;
}

}  // namespace

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  // Python writes an exponent below 1e-4 and from 1e16 on; both take the fewest digits that read back.
  const double magnitude = std::abs(number);
  const bool fixed = number == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, format).ptr;
  std::string out(buffer, end);
  if (fixed && out.find('.') == out.npos) out += ".0";
  return out;
}

Text to_text(const Value& value) {
  if (value.is_text()) return value.text();
  return value.is_undefined() ? Text() : to_repr(value);
}

Text to_repr(const Value& value) {
  if (value.is_none()) return Text("None");
  if (value.is_undefined()) return Text("Undefined");
  if (value.is_bool()) return Text(value.boolean() ? "True" : "False");
  if (value.is_integral()) return Text(std::to_string(value.integer()));
  if (value.is_number()) return Text(float_repr(value.number()));
  if (value.is_text()) {
    const std::string quoted = text_repr(value.bytes());
    return value.text().as_plain().remade(value.text().is_markup() ? "Markup(" + quoted + ")" : quoted);
  }
  if (value.is_dict()) return dict_repr(*value.dict());
  if (value.is_object()) return Text(value.object()->repr());
  const Sequence& sequence = *value.sequence();
  return sequence.type == Sequence::Type::range ? range_repr(sequence) : sequence_repr(sequence);
}

}  // namespace smelt::jinja
