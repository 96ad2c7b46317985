// The values of JSON Schema's `format` that are held to, as regular expressions.
#pragma once

#include <string_view>

namespace smelt {

// nullptr: a format that only describes.
const char* string_format(std::string_view name);

}  // namespace smelt
