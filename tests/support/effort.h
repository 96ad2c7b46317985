// How much of a test that repeats itself runs under a sanitizer, where all but the generated code is 3 to 15 times
// slower.
#pragma once

#include <vector>

namespace smelt::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SMELT_IS_SANITIZED 1
#endif
#endif
#ifdef SMELT_IS_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// `times` repetitions, or a fifth of them.
inline constexpr int repetitions(int times) { return kSanitized ? (times + 4) / 5 : times; }

// All of `values`, or the first one: for those that differ in generated code, which no sanitizer sees.
template <class T>
std::vector<T> some(std::vector<T> values) {
  if (kSanitized) values.resize(1);
  return values;
}

}  // namespace smelt::test
