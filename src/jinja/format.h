// Python's two ways of formatting: "%s has %d" % (a, b) and "{} has {n:.2f}".format(a, n=b).
#pragma once

#include "jinja/value.h"

namespace smelt::jinja {

Text percent_format(Interpreter& interpreter, const Text& format, const Value& arguments);
Text brace_format(Interpreter& interpreter, const Text& format, const Arguments& arguments);

}  // namespace smelt::jinja
