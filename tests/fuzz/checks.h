// What targets ask of readers: a promise holds, and an error is one line.
#pragma once

#include <cstdlib>
#include <string>

namespace smelt::test {

inline void require(bool holds) {
  if (!holds) std::abort();
}

// Whether a reader took its input. `tag`: what its errors begin with.
template <class R>
bool is_read(const R& result, const std::string& tag = "[") {
  if (!result)
    require(result.error().message.starts_with(tag) && result.error().message.find('\n') == std::string::npos);
  return result.ok();
}

}  // namespace smelt::test
