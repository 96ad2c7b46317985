// From tokens to a syntax tree. Refuses what is nested too deep, so that nobody who walks the tree has to.
#pragma once

#include <string_view>

#include "jinja/syntax.h"

namespace smelt::jinja {

// How deep statements and expressions may be nested.
inline constexpr int kMaxSyntaxDepth = 128;

// Throws TemplateError.
Body parse_template(std::string_view source);

}  // namespace smelt::jinja
