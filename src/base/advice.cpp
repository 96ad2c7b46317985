#include "base/advice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <optional>

// Numbers of Linux that headers of older systems lack.
#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22
#endif
#if defined(__linux__) && !defined(MADV_PAGEOUT)
#define MADV_PAGEOUT 21
#endif

namespace smelt {
namespace {

std::optional<int> number_of(Advice advice) {
  switch (advice) {
    case Advice::Normal: return MADV_NORMAL;
    case Advice::Sequential: return MADV_SEQUENTIAL;
    case Advice::DontNeed: return MADV_DONTNEED;
#ifdef __linux__
    case Advice::PopulateRead: return MADV_POPULATE_READ;
    case Advice::PageOut: return MADV_PAGEOUT;
    case Advice::HugePages: return MADV_HUGEPAGE;
#else
    case Advice::PopulateRead: return MADV_WILLNEED;  // begins with it
    case Advice::PageOut:
    case Advice::HugePages: return std::nullopt;
#endif
  }
  return std::nullopt;
}

}  // namespace

bool advise(std::span<const std::byte> bytes, Advice advice) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin / page * page, end = (begin + bytes.size() + page - 1) / page * page;
  const auto number = number_of(advice);
  return number && ::madvise(reinterpret_cast<void*>(first), end - first, *number) == 0;
}

}  // namespace smelt
