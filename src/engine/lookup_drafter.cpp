#include "engine/lookup_drafter.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr size_t kShortest = 2;  // tokens that have to occur again
constexpr size_t kLongest = 16;  // more of them make no better guess

// How many tokens before `end` are those at the end of the text.
size_t common_end(std::span<const int32_t> text, size_t end) {
  size_t n = 0;
  while (n < std::min(end, kLongest) && text[end - 1 - n] == text[text.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

Result<std::vector<DraftToken>> LookupDrafter::draft(std::span<const int32_t> text, int64_t most) {
  std::vector<DraftToken> out;
  if (most < 1 || text.size() < kShortest) return out;
  size_t best = kShortest - 1, begin = 0;  // the longest end that occurred before, the latest of equal ones
  for (size_t end = text.size() - 1; end >= kShortest && best < kLongest; --end) {
    if (text[end - 1] != text.back()) continue;
    if (const size_t n = common_end(text, end); n > best) best = n, begin = end;
  }
  if (begin == 0) return out;
  const size_t count = std::min(static_cast<size_t>(most), text.size() - begin);
  for (int32_t token : text.subspan(begin, count)) out.push_back({token});
  return out;
}

}  // namespace smelt
