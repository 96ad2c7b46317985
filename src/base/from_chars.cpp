#include "base/from_chars.h"

#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#ifdef __APPLE__
#include <xlocale.h>
#endif

namespace smelt {
namespace {

locale_t plain_locale() {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  return plain;
}

bool begins_number(char c) { return c != '\0' && std::strchr("0123456789.iInN", c); }
bool is_hexadecimal(const char* at, const char* end) { return end - at > 1 && at[0] == '0' && (at[1] | 32) == 'x'; }

}  // namespace

// strtod() also takes spaces, a plus, and numbers of base 16, of which the other stops behind the first zero.
std::from_chars_result float_by_strtod(const char* begin, const char* end, double& value) {
  const char* at = begin != end && *begin == '-' ? begin + 1 : begin;
  if (at == end || !begins_number(*at)) return {begin, std::errc::invalid_argument};
  const std::string text(begin, is_hexadecimal(at, end) ? at + 1 : end);
  char* stopped = nullptr;
  errno = 0;
  const double read = strtod_l(text.c_str(), &stopped, plain_locale());
  if (stopped == text.c_str()) return {begin, std::errc::invalid_argument};
  const char* behind = begin + (stopped - text.c_str());
  if (errno == ERANGE && (read == 0 || std::isinf(read))) return {behind, std::errc::result_out_of_range};
  value = read;
  return {behind, std::errc()};
}

}  // namespace smelt
