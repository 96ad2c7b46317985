// Filters that make numbers.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/text_tools.h"

namespace smelt::jinja {
namespace {

using Subject = const Value&;
using Given = const Arguments&;

// What int() and float() of Python read: spaces around and "_" between digits.
std::string plain_number(const Text& text) {
  std::string number = strip_spaces(text, Side::both).bytes();
  for (size_t i = 1; i + 1 < number.size(); ++i) {
    if (number[i] == '_' && std::isalnum(static_cast<uint8_t>(number[i - 1])) &&
        std::isalnum(static_cast<uint8_t>(number[i + 1]))) {
      number.erase(i, 1);
    }
  }
  return number;
}

std::optional<int64_t> read_integer(const Text& text, int base) {
  const std::string number = plain_number(text);
  std::string_view digits = number;
  const bool is_negative = digits.starts_with('-');
  if (is_negative || digits.starts_with('+')) digits.remove_prefix(1);
  const auto skip_prefix = [&](int of, char letter) {
    const bool has = digits.size() > 2 && digits[0] == '0' && (digits[1] | 32) == letter;
    if (has && (base == of || base == 0)) digits.remove_prefix(2), base = of;
  };
  skip_prefix(16, 'x');
  skip_prefix(8, 'o');
  skip_prefix(2, 'b');
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || digits.empty() || digits[0] == '-') return std::nullopt;
  int64_t value = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (end.ec != std::errc() || end.ptr != digits.data() + digits.size()) return std::nullopt;
  return is_negative ? -value : value;
}

std::optional<double> read_float(const Text& text) {
  const std::string number = plain_number(text);
  // strtod also takes hexadecimal ones and names with brackets, which Python does not.
  if (number.empty() || number.find_first_of("xXpP(") != number.npos || std::isspace(static_cast<uint8_t>(number[0]))) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  return end == number.c_str() + number.size() ? std::optional(value) : std::nullopt;
}

std::optional<double> as_float(const Value& value) {
  if (value.is_number()) return value.number();
  return value.is_text() ? read_float(value.text()) : std::nullopt;
}

Value to_integer(Interpreter&, Subject value, Given given) {
  const Parameters p("int", given, {"default", "base"});
  if (value.is_undefined()) fail_undefined(value.undefined());
  if (value.is_integral()) return value.integer();
  if (value.is_text()) {
    if (const auto number = read_integer(value.text(), static_cast<int>(p.integer(1, 10)))) return *number;
  }
  const auto number = as_float(value);
  if (number && std::abs(*number) < 9e18) return static_cast<int64_t>(*number);
  return p.get(0, Value(0));
}

Value to_float(Interpreter&, Subject value, Given given) {
  const Parameters p("float", given, {"default"});
  if (value.is_undefined()) fail_undefined(value.undefined());
  const auto number = as_float(value);
  return number ? Value(*number) : p.get(0, Value(0.0));
}

Value absolute(Interpreter&, Subject value, Given given) {
  Parameters("abs", given, {});
  if (value.is_undefined()) fail_undefined(value.undefined());
  if (!value.is_number()) fail("abs needs a number");
  if (value.is_integral()) return value.integer() < 0 ? -value.integer() : value.integer();
  return std::abs(value.number());
}

// To the nearest, and to the even one of two, as the shortest decimal with so many digits.
double round_to(double value, int precision) {
  if (!std::isfinite(value)) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", std::min(precision, 340), value);
  return std::strtod(buffer, nullptr);
}

Value rounded(Interpreter&, Subject value, Given given) {
  const Parameters p("round", given, {"precision", "method"});
  if (value.is_undefined()) fail_undefined(value.undefined());
  if (!value.is_number()) fail("round needs a number");
  const std::string method = p.text(1, "common").bytes();
  const int64_t precision = p.integer(0, 0);
  if (precision < -300 || precision > 300) fail("round: the precision is out of range");
  if (method == "common") {
    if (value.is_integral() && precision >= 0) return value.integer();
    const double number = round_to(value.number(), static_cast<int>(precision));
    return value.is_integral() ? Value(static_cast<int64_t>(number)) : Value(number);
  }
  if (method != "ceil" && method != "floor") fail("round: the method is common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.number() * unit;
  // Python's ceil and floor give integers, among which there is no -0.
  return ((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / unit;
}

constexpr NamedFilter kFilters[] = {{"int", to_integer}, {"float", to_float}, {"abs", absolute}, {"round", rounded}};

}  // namespace

std::span<const NamedFilter> number_filters() { return kFilters; }

}  // namespace smelt::jinja
