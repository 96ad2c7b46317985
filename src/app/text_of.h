#pragma once

#include <algorithm>
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

// Shares of what was measured: a few hundredths more than all of it are the error of measuring.
inline bool is_over(double share) { return share > 1.05; }
inline std::string percent_text(double share) { return text_of("%.0f %%", std::min(share, 1.0) * 100); }

// "57 %" of what memory gives; "cached" where it is clearly more, which only caches can give.
inline std::string share_text(double share) { return is_over(share) ? "cached" : percent_text(share); }

}  // namespace smelt
