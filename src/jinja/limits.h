// What one rendering may use. A template comes with a model file, and text with a request; neither is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::jinja {

struct Limits {
  int64_t operations = 10'000'000;   // expressions, statements, items, and bytes by the kBytesPerOperation
  size_t output = size_t{16} << 20;  // bytes of the result, and of any other text on the way
  int depth = 128;                   // macros and recursive loops inside each other
  int64_t range = 1'000'000;         // items of a range
  static constexpr int64_t kBytesPerOperation = 32;
};

}  // namespace smelt::jinja
