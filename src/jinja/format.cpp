#include "jinja/format.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/interpreter.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace smelt::jinja {
namespace {

constexpr int kMostWidth = 10'000;
constexpr int kMostPrecision = 400;

struct Spec {
  char fill = ' ';
  char align = 0;  // < > ^ =; 0: as usual for the type
  char sign = 0;   // + or space
  bool alternate = false, zeros = false, commas = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

int read_number(std::string_view text, size_t& pos, int most) {
  int value = 0;
  for (; pos < text.size() && std::isdigit(static_cast<uint8_t>(text[pos])); ++pos) {
    value = value * 10 + (text[pos] - '0');
    if (value > most) fail("a width or precision of a format is larger than " + std::to_string(most));
  }
  return value;
}

Text padded(Text text, const Spec& spec, char usual_align) {
  const size_t length = count_characters(text.bytes());
  if (length >= static_cast<size_t>(spec.width)) return text;
  const size_t gap = static_cast<size_t>(spec.width) - length;
  const char align = spec.align ? spec.align : usual_align;
  const size_t before = align == '<' ? 0 : align == '^' ? gap / 2 : gap;
  Text out(std::string(before, spec.fill));
  out.append(text);
  out.append(std::string(gap - before, spec.fill));
  return out;
}

// "-12" to "-0012": zeros go behind the sign.
std::string with_zeros(const std::string& number, int width) {
  const size_t sign = !number.empty() && (number[0] == '-' || number[0] == '+' || number[0] == ' ') ? 1 : 0;
  const size_t missing = static_cast<size_t>(width) > number.size() ? static_cast<size_t>(width) - number.size() : 0;
  return number.substr(0, sign) + std::string(missing, '0') + number.substr(sign);
}

std::string with_commas(std::string number) {
  const size_t begin = number.find_first_of("0123456789");
  size_t end = number.find_first_not_of("0123456789", begin);
  if (begin == number.npos) return number;
  if (end == number.npos) end = number.size();
  for (size_t at = end; at > begin + 3;) {
    at -= 3;
    number.insert(at, ",");
  }
  return number;
}

std::string signed_number(std::string digits, bool is_negative, const Spec& spec) {
  if (is_negative) return "-" + digits;
  return spec.sign ? spec.sign + digits : digits;
}

std::string integer_text(int64_t value, const Spec& spec) {
  const auto magnitude = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[72];
  const int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr);
  if (spec.type == 'X') std::transform(digits.begin(), digits.end(), digits.begin(), ::toupper);
  if (spec.alternate && base != 10) digits = std::string("0") + spec.type + digits;
  if (spec.commas) digits = with_commas(digits);
  return signed_number(digits, value < 0, spec);
}

std::string float_text(double value, const Spec& spec) {
  const bool is_percent = spec.type == '%';
  const char type = is_percent ? 'f' : spec.type ? spec.type : 'g';
  const char form[] = {'%', '.', '*', type, 0};
  char buffer[1024];
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  std::snprintf(buffer, sizeof buffer, form, precision, std::abs(is_percent ? value * 100 : value));
  std::string digits = buffer;
  if (spec.commas) digits = with_commas(digits);
  return signed_number(digits + (is_percent ? "%" : ""), std::signbit(value) && !std::isnan(value), spec);
}

Text finish_number(std::string number, const Spec& spec) {
  if (spec.zeros) number = with_zeros(number, spec.width);
  return padded(Text(std::move(number)), spec, '>');
}

Text cut(const Text& text, int precision) {
  if (precision < 0) return text;
  const std::vector<size_t> starts = character_starts(text.bytes());
  return text.slice(0, starts[std::min(starts.size() - 1, static_cast<size_t>(precision))]);
}

bool is_float_type(char type) { return std::string_view("eEfFgG%").find(type) != std::string_view::npos; }

// --- "%-5.2f" % x
class PercentFormat {
 public:
  PercentFormat(Interpreter& interpreter, const Text& format, const Value& arguments)
      : interpreter_(interpreter), format_(format), bytes_(format.bytes()), arguments_(arguments) {
    takes_tuple_ = arguments.is_sequence() && arguments.sequence()->is_tuple();
  }

  Text run() {
    for (size_t pos = 0; pos < bytes_.size();) {
      const size_t percent = std::min(bytes_.find('%', pos), bytes_.size());
      out_.append(format_.slice(pos, percent));
      pos = percent;
      if (pos < bytes_.size()) pos = conversion(pos + 1);
      interpreter_.charge_bytes(out_.size());
    }
    const bool may_be_unused = arguments_.is_dict() || (arguments_.is_sequence() && !takes_tuple_);
    const size_t given = takes_tuple_ ? arguments_.sequence()->items.size() : 1;
    if (!may_be_unused && !by_name_ && next_ < given) fail("not all arguments of a format were used");
    return std::move(out_);
  }

 private:
  size_t conversion(size_t pos) {
    const Value* named = pos < bytes_.size() && bytes_[pos] == '(' ? named_argument(pos) : nullptr;
    Spec spec;
    for (; pos < bytes_.size() && std::string_view("-+ #0").find(bytes_[pos]) != std::string_view::npos; ++pos) {
      if (bytes_[pos] == '-') spec.align = '<';
      if (bytes_[pos] == '+') spec.sign = '+';
      if (bytes_[pos] == ' ' && !spec.sign) spec.sign = ' ';
      if (bytes_[pos] == '#') spec.alternate = true;
      if (bytes_[pos] == '0') spec.zeros = true;
    }
    if (spec.align) spec.zeros = false;
    spec.width = read_number(bytes_, pos, kMostWidth);
    if (pos < bytes_.size() && bytes_[pos] == '.') spec.precision = read_number(bytes_, ++pos, kMostPrecision);
    if (pos == bytes_.size()) fail("a format ends within a conversion");
    spec.type = bytes_[pos++];
    if (spec.type == '%') {
      out_.append("%");
    } else {
      out_.append(converted(named ? *named : next_argument(), spec));
    }
    return pos;
  }

  const Value* named_argument(size_t& pos) {
    const size_t close = bytes_.find(')', pos);
    if (close == bytes_.npos || !arguments_.is_dict()) fail("a format with names needs a dict");
    const Value* value = arguments_.dict()->find(std::string_view(bytes_).substr(pos + 1, close - pos - 1));
    if (!value) fail("a format names a key that its dict has not");
    by_name_ = true;
    pos = close + 1;
    return value;
  }

  const Value& next_argument() {
    const size_t given = takes_tuple_ ? arguments_.sequence()->items.size() : 1;
    if (next_ >= given) fail("not enough arguments for a format");
    const size_t i = next_++;
    return takes_tuple_ ? arguments_.sequence()->items[i] : arguments_;
  }

  static Text converted(const Value& value, const Spec& spec) {
    switch (spec.type) {
      case 's': return padded(cut(to_text(value), spec.precision), spec, '>');
      case 'r': return padded(cut(to_repr(value), spec.precision), spec, '>');
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number()) fail("a format needs a number, not a " + std::string(type_name(value)));
        return finish_number(float_text(value.number(), spec), spec);
      case 'c':
        if (value.is_text() && count_characters(value.bytes()) == 1) return padded(value.text(), spec, '>');
        fail("a format %c needs one character");
      default: fail(std::string("a format has the unknown conversion '") + spec.type + "'");
    }
  }

  static Text integer(const Value& value, Spec spec) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (!value.is_number() || (!decimal && !value.is_integral())) {
      fail("a format needs a number, not a " + std::string(type_name(value)));
    }
    const double number = value.number();
    if (!value.is_integral() && !(std::abs(number) < 9e18)) fail("a format cannot write this number as an integer");
    std::string digits = integer_text(value.is_integral() ? value.integer() : static_cast<int64_t>(number), spec);
    const size_t sign = !digits.empty() && !std::isalnum(static_cast<uint8_t>(digits[0])) ? 1 : 0;
    if (spec.precision >= 0) digits = with_zeros(digits, spec.precision + static_cast<int>(sign));
    return finish_number(digits, spec);
  }

  Interpreter& interpreter_;
  const Text& format_;
  const std::string& bytes_;
  const Value& arguments_;
  bool takes_tuple_ = false, by_name_ = false;
  size_t next_ = 0;
  Text out_;
};

// --- "{:>5}".format(x)
class BraceFormat {
 public:
  BraceFormat(Interpreter& interpreter, const Text& format, const Arguments& arguments)
      : interpreter_(interpreter), format_(format), bytes_(format.bytes()), arguments_(arguments) {}

  Text run() {
    for (size_t pos = 0; pos < bytes_.size();) {
      const size_t brace = std::min(bytes_.find_first_of("{}", pos), bytes_.size());
      out_.append(format_.slice(pos, brace));
      pos = brace;
      if (pos < bytes_.size()) pos = at_brace(pos);
      interpreter_.charge_bytes(out_.size());
    }
    return std::move(out_);
  }

 private:
  size_t at_brace(size_t pos) {
    const bool is_doubled = pos + 1 < bytes_.size() && bytes_[pos + 1] == bytes_[pos];
    if (is_doubled) {
      out_.append(format_.slice(pos, pos + 1));
      return pos + 2;
    }
    const size_t close = bytes_.find('}', pos);
    if (bytes_[pos] == '}' || close == bytes_.npos) fail("a format has a single '{' or '}'");
    field(std::string_view(bytes_).substr(pos + 1, close - pos - 1));
    return close + 1;
  }

  void field(std::string_view text) {
    if (text.find('{') != text.npos) fail("a format has a field inside a field, which is not supported");
    const size_t colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    Value value = argument(name);
    if (conversion == 'r') value = to_repr(value);
    if (conversion == 's') value = to_text(value);
    out_.append(formatted(value, spec_of(text.substr(std::min(colon + 1, text.size())))));
  }

  // "0", "name", "", each with .attribute and [item] behind it
  Value argument(std::string_view name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first_argument(name.substr(0, end));
    while (end < name.size()) {
      const bool is_item = name[end] == '[';
      size_t stop = is_item ? name.find(']', end) : name.find_first_of(".[", end + 1);
      if (is_item && stop == name.npos) fail("a format has a '[' without ']'");
      stop = std::min(stop, name.size());
      const std::string_view part = name.substr(end + 1, stop - end - 1);
      value = is_item ? interpreter_.item(value, key_of(part)) : interpreter_.attribute(value, part);
      end = is_item ? stop + 1 : stop;
    }
    return value;
  }

  static Value key_of(std::string_view part) {
    size_t pos = 0;
    if (part.empty() || part.find_first_not_of("0123456789") != part.npos) return Value(part);
    return read_number(part, pos, kMostWidth);
  }

  Value first_argument(std::string_view name) {
    const Value key = name.empty() ? Value(next_++) : key_of(name);
    if (key.is_integral()) {
      if (static_cast<size_t>(key.integer()) >= arguments_.positional.size()) fail("not enough arguments for a format");
      return arguments_.positional[static_cast<size_t>(key.integer())];
    }
    for (const auto& [given, value] : arguments_.named) {
      if (given == name) return value;
    }
    fail("a format names an argument that was not given");
  }

  static Spec spec_of(std::string_view text) {
    Spec spec;
    size_t pos = 0;
    const auto at = [&](size_t i, std::string_view any) { return i < text.size() && any.find(text[i]) != any.npos; };
    if (at(1, "<>^=")) {
      spec.fill = text[0], spec.align = text[1], pos = 2;
    } else if (at(0, "<>^=")) {
      spec.align = text[0], pos = 1;
    }
    if (at(pos, "+- ")) spec.sign = text[pos] == '-' ? 0 : text[pos], ++pos;
    if (at(pos, "#")) spec.alternate = true, ++pos;
    if (at(pos, "0")) spec.zeros = spec.align == 0, ++pos;
    spec.width = read_number(text, pos, kMostWidth);
    if (at(pos, ",")) spec.commas = true, ++pos;
    if (at(pos, ".")) spec.precision = read_number(text, ++pos, kMostPrecision);
    if (pos < text.size()) spec.type = text[pos++];
    if (pos < text.size()) fail("a format has an unknown specification '" + std::string(text) + "'");
    return spec;
  }

  static Text formatted(const Value& value, Spec spec) {
    if (spec.align == '=') spec.align = 0, spec.zeros = spec.fill == '0';
    const bool as_is = value.is_bool() && spec.type == 0;
    if (value.is_number() && !as_is) {
      if (is_float_type(spec.type)) return finish_number(float_text(value.number(), spec), spec);
      if (!value.is_integral() && spec.type == 0 && spec.precision < 0) {
        std::string digits = float_repr(std::abs(value.number()));
        if (spec.commas) digits = with_commas(digits);
        return finish_number(signed_number(digits, std::signbit(value.number()), spec), spec);
      }
      if (!value.is_integral() && spec.type == 0) return finish_number(float_text(value.number(), spec), spec);
      if (!value.is_integral() || spec.type == 's') fail("a format does not fit the type of its argument");
      return finish_number(integer_text(value.integer(), spec), spec);
    }
    if (spec.type != 0 && spec.type != 's') fail("a format needs a number, not a " + std::string(type_name(value)));
    return padded(cut(to_text(value), spec.precision), spec, '<');
  }

  Interpreter& interpreter_;
  const Text& format_;
  const std::string& bytes_;
  const Arguments& arguments_;
  size_t next_ = 0;
  Text out_;
};

}  // namespace

Text percent_format(Interpreter& interpreter, const Text& format, const Value& arguments) {
  return PercentFormat(interpreter, format, arguments).run();
}

Text brace_format(Interpreter& interpreter, const Text& format, const Arguments& arguments) {
  return BraceFormat(interpreter, format, arguments).run();
}

}  // namespace smelt::jinja
