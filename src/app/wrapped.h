// Text made to fit a width.
#pragma once

#include <string>

namespace smelt {

constexpr size_t kReportWidth = 120;

// `text` in lines of at most `width` columns, all but the first behind `indent` spaces. A longer word keeps a line to
// itself.
std::string wrapped(const std::string& text, size_t width, size_t indent);

// Its first `width` bytes, and "..." in place of the rest.
std::string clipped(const std::string& text, size_t width);

}  // namespace smelt
