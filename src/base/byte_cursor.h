// ByteCursor: numbers and texts one behind the other, in the byte order of this machine, from bytes that nobody has
// checked. What is not there any more is empty or zero, and `ok` false from then on.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace smelt {

struct ByteCursor {
  std::string_view rest;
  bool ok = true;

  std::string_view bytes(uint64_t count) {
    ok = ok && count <= rest.size();
    const std::string_view taken = ok ? rest.substr(0, count) : std::string_view();
    rest.remove_prefix(taken.size());
    return taken;
  }

  template <class T>
  T number() {
    T value = 0;
    if (const std::string_view raw = bytes(sizeof value); ok) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
};

}  // namespace smelt
