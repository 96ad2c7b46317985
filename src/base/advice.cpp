#include "base/advice.h"

#include <unistd.h>

#include <cstdint>

namespace smelt {

bool advise(std::span<const std::byte> bytes, int advice) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin / page * page, end = (begin + bytes.size() + page - 1) / page * page;
  return ::madvise(reinterpret_cast<void*>(first), end - first, advice) == 0;
}

}  // namespace smelt
