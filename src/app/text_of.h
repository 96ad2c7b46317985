#pragma once

#include <cstdio>
#include <string>

namespace smelt {

// printf into a string, of at most 511 bytes.
template <class... Values>
std::string text_of(const char* format, Values... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

// "57 %" of what memory gives; "cached" where it is clearly more, which only caches can give.
inline std::string share_text(double share) { return share > 1.05 ? "cached" : text_of("%.0f %%", share * 100); }

}  // namespace smelt
