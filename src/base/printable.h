// Text from outside, made safe to print: names in a model file may hold anything, terminal commands
// included.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace smelt {

// `text` with control characters, backslashes and bytes that are no UTF-8 written as \n, \t, \\ or
// \xNN. What comes after the first `most` bytes is left out and stands as "...".
std::string printable(std::string_view text, size_t most = 200);

}  // namespace smelt
