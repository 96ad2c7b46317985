// Numbers from text, as std::from_chars() reads them, floats too: the C++ library of Apple's systems has integers only.
#pragma once

#include <charconv>
#include <type_traits>

namespace smelt {

// By the C library, as std::from_chars() would: nothing in front is skipped, whatever the locale. Where that has floats
// it is not used.
std::from_chars_result float_by_strtod(const char* begin, const char* end, double& value);

template <class T>
std::from_chars_result from_chars(const char* begin, const char* end, T& value) {
#ifndef __cpp_lib_to_chars
  if constexpr (std::is_floating_point_v<T>) {
    double read = 0;
    const std::from_chars_result result = float_by_strtod(begin, end, read);
    if (result.ec == std::errc()) value = static_cast<T>(read);
    return result;
  } else
#endif
    return std::from_chars(begin, end, value);
}

}  // namespace smelt
