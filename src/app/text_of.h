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

}  // namespace smelt
