#include "jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "jinja/format.h"
#include "jinja/interpreter.h"
#include "jinja/text_tools.h"

namespace smelt::jinja {
namespace {

[[noreturn]] void fail_operands(const char* op, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a.undefined());
  if (b.is_undefined()) fail_undefined(b.undefined());
  fail(std::string("'") + op + "' does not work on " + std::string(type_name(a)) + " and " + std::string(type_name(b)));
}

[[noreturn]] void fail_too_large() { fail("an integer becomes too large"); }

bool are_integral(const Value& a, const Value& b) { return a.is_integral() && b.is_integral(); }
bool are_numbers(const Value& a, const Value& b) { return a.is_number() && b.is_number(); }

Value concatenate(Interpreter& interpreter, const Text& a, const Text& b) {
  interpreter.charge_bytes(a.size() + b.size());
  if (a.is_markup() != b.is_markup()) return concatenate(interpreter, escaped(a), escaped(b));
  Text text = a;
  text.append(b);
  return text;
}

Value concatenate(Interpreter& interpreter, const Sequence& a, const Sequence& b) {
  interpreter.charge(static_cast<int64_t>(a.items.size() + b.items.size()));
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return a.is_tuple() ? make_tuple(std::move(items)) : make_list(std::move(items));
}

bool can_concatenate(const Value& a, const Value& b) {
  if (!a.is_sequence() || !b.is_sequence()) return false;
  const Sequence &x = *a.sequence(), &y = *b.sequence();
  return (x.is_tuple() && y.is_tuple()) || (x.type == Sequence::Type::list && y.type == Sequence::Type::list);
}

Value add(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return concatenate(interpreter, a.text(), b.text());
  if (can_concatenate(a, b)) return concatenate(interpreter, *a.sequence(), *b.sequence());
  if (!are_numbers(a, b)) fail_operands("+", a, b);
  if (!are_integral(a, b)) return a.number() + b.number();
  int64_t sum;
  if (__builtin_add_overflow(a.integer(), b.integer(), &sum)) fail_too_large();
  return sum;
}

Value subtract(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands("-", a, b);
  if (!are_integral(a, b)) return a.number() - b.number();
  int64_t difference;
  if (__builtin_sub_overflow(a.integer(), b.integer(), &difference)) fail_too_large();
  return difference;
}

Value repeat(Interpreter& interpreter, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const size_t size = value.is_text() ? value.text().size() : value.sequence()->items.size();
  if (size > 0 && static_cast<uint64_t>(times) > interpreter.limits().output / size) {
    interpreter.charge_bytes(interpreter.limits().output + 1);
  }
  const size_t total = size * static_cast<size_t>(times);
  if (size == 0) times = 0;
  if (value.is_text()) {
    interpreter.charge_bytes(total);
    Text text;
    for (int64_t i = 0; i < times; ++i) text.append(value.text());
    return text;
  }
  interpreter.charge(static_cast<int64_t>(total));
  std::vector<Value> items;
  const auto& once = value.sequence()->items;
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), once.begin(), once.end());
  return value.sequence()->is_tuple() ? make_tuple(std::move(items)) : make_list(std::move(items));
}

bool can_repeat(const Value& value) {
  return value.is_text() ||
         (value.is_sequence() && (value.sequence()->is_tuple() || value.sequence()->type == Sequence::Type::list));
}

Value multiply(Interpreter& interpreter, const Value& a, const Value& b) {
  if (can_repeat(a) && b.is_integral()) return repeat(interpreter, a, b.integer());
  if (can_repeat(b) && a.is_integral()) return repeat(interpreter, b, a.integer());
  if (!are_numbers(a, b)) fail_operands("*", a, b);
  if (!are_integral(a, b)) return a.number() * b.number();
  int64_t product;
  if (__builtin_mul_overflow(a.integer(), b.integer(), &product)) fail_too_large();
  return product;
}

void check_divisor(const Value& b) {
  if (b.number() == 0) fail("division by zero");
}

Value divide(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands("/", a, b);
  check_divisor(b);
  return a.number() / b.number();
}

// The remainder has the sign of the divisor.
double float_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_floor_divide(double a, double b) {
  const double quotient = (a - float_modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value floor_divide(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands("//", a, b);
  check_divisor(b);
  if (!are_integral(a, b)) return float_floor_divide(a.number(), b.number());
  const int64_t x = a.integer(), y = b.integer();
  if (y == -1) return subtract(Value(0), a);
  return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
}

Value modulo(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.is_text()) return percent_format(interpreter, a.text(), b);
  if (!are_numbers(a, b)) fail_operands("%", a, b);
  check_divisor(b);
  if (!are_integral(a, b)) return float_modulo(a.number(), b.number());
  const int64_t x = a.integer(), y = b.integer();
  if (y == -1) return 0;
  const int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

Value power(const Value& a, const Value& b) {
  if (!are_numbers(a, b)) fail_operands("**", a, b);
  if (!are_integral(a, b) || b.integer() < 0) {
    if (a.number() == 0 && b.number() < 0) fail("division by zero");
    const double result = std::pow(a.number(), b.number());
    if (!std::isfinite(result)) fail("a power is no number, or too large");
    return result;
  }
  int64_t result = 1, base = a.integer();
  for (int64_t left = b.integer(); left > 0; left >>= 1) {
    if ((left & 1) && __builtin_mul_overflow(result, base, &result)) fail_too_large();
    if (left > 1 && __builtin_mul_overflow(base, base, &base)) fail_too_large();
  }
  return result;
}

}  // namespace

Value apply(Interpreter& interpreter, BinaryOp op, const Value& a, const Value& b) {
  switch (op) {
    case BinaryOp::add: return add(interpreter, a, b);
    case BinaryOp::subtract: return subtract(a, b);
    case BinaryOp::multiply: return multiply(interpreter, a, b);
    case BinaryOp::divide: return divide(a, b);
    case BinaryOp::floor_divide: return floor_divide(a, b);
    case BinaryOp::modulo: return modulo(interpreter, a, b);
    case BinaryOp::power: return power(a, b);
  }
  return {};
}

bool holds(Interpreter& interpreter, CompareOp op, const Value& a, const Value& b) {
  interpreter.charge_for(a);
  switch (op) {
    case CompareOp::equal: return are_equal(a, b);
    case CompareOp::not_equal: return !are_equal(a, b);
    case CompareOp::less: return compare(a, b) < 0;
    case CompareOp::less_equal: return compare(a, b) <= 0;
    case CompareOp::greater: return compare(a, b) > 0;
    case CompareOp::greater_equal: return compare(a, b) >= 0;
    case CompareOp::in: return contains(interpreter, b, a);
    case CompareOp::not_in: return !contains(interpreter, b, a);
  }
  return false;
}

Value negate(const Value& value) {
  if (value.is<double>()) return -value.number();
  if (!value.is_number()) fail_operands("-", value, value);
  return subtract(Value(0), value);
}

Value plus(const Value& value) {
  if (!value.is_number()) fail_operands("+", value, value);
  return value.is_bool() ? Value(value.integer()) : value;
}

bool contains(Interpreter& interpreter, const Value& container, const Value& item) {
  interpreter.charge_for(container);
  if (container.is_text()) {
    if (!item.is_text()) fail("'in <string>' needs a string, not a " + std::string(type_name(item)));
    return container.bytes().find(item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict()->find(item) != nullptr;
  const SequenceRef items = interpreter.items_of(container);
  for (const Value& value : items->items) {
    interpreter.charge_for(value);
    if (are_equal(value, item)) return true;
  }
  return false;
}

}  // namespace smelt::jinja
