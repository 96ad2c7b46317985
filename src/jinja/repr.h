// How Python writes values: str(), repr() and the shortest form of a float.
#pragma once

#include <string>

#include "jinja/value.h"

namespace smelt::jinja {

// str(value), with the origin of its bytes. What is undefined is empty.
Text to_text(const Value& value);
// repr(value): texts in quotes.
Text to_repr(const Value& value);
std::string float_repr(double number);  // "1.0", "1e-07", "inf"

}  // namespace smelt::jinja
