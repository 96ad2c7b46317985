// The operators of Python on values.
#pragma once

#include "jinja/syntax.h"
#include "jinja/value.h"

namespace smelt::jinja {

Value apply(Interpreter& interpreter, BinaryOp op, const Value& a, const Value& b);
bool holds(Interpreter& interpreter, CompareOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);
bool contains(Interpreter& interpreter, const Value& container, const Value& item);  // item in container

}  // namespace smelt::jinja
