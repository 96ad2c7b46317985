#include "codegen/range_id.h"

#include <charconv>

namespace smelt {
namespace {

constexpr size_t kMostPartDigits = kMostRangeBits - kRangeBits;

// The whole of a text as a number.
std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::string text_of_whole(int64_t number) {
  if (number >= kFirstReduceRange) return "r" + std::to_string(number - kFirstReduceRange);
  if (number >= kFirstOutputRange) return "o" + std::to_string(number - kFirstOutputRange);
  return std::to_string(number);  // that lowering does not give
}

std::optional<int64_t> whole_of_text(std::string_view text) {
  const char first = text.empty() ? ' ' : text.front();
  if (first != 'o' && first != 'r') {
    const auto number = whole_number(text);
    return number && *number < kFirstOutputRange ? number : std::nullopt;
  }
  const int64_t from = first == 'o' ? kFirstOutputRange : kFirstReduceRange;
  const int64_t behind = first == 'o' ? kFirstReduceRange : int64_t{1} << kRangeBits;
  const auto number = whole_number(text.substr(1));
  return number && *number < behind - from ? std::optional(from + *number) : std::nullopt;
}

}  // namespace

std::string to_string(RangeId id) {
  const int digits = std::max(0, bits_of_range(id.number) - kRangeBits);
  std::string text = text_of_whole(whole_range(id.number));
  if (digits > 0) text += '.';
  for (int digit = digits; digit-- > 0;) text += (id.number >> digit) % 2 ? '1' : '0';
  return id.among > 0 ? text + "#" + std::to_string(id.among) : text;
}

std::optional<RangeId> parse_range_id(std::string_view text) {
  RangeId id;
  if (const size_t mark = text.find('#'); mark != std::string_view::npos) {
    const auto among = whole_number(text.substr(mark + 1));
    if (!among || *among == 0 || *among > 1 << kRangeBits) return std::nullopt;
    id.among = static_cast<int>(*among);
    text = text.substr(0, mark);
  }
  const size_t dot = text.find('.');
  const auto whole = whole_of_text(text.substr(0, dot));
  if (!whole) return std::nullopt;
  id.number = *whole;
  if (dot == std::string_view::npos) return id;
  const std::string_view parts = text.substr(dot + 1);
  if (parts.empty() || parts.size() > kMostPartDigits || *whole < kFirstOutputRange) return std::nullopt;
  for (char part : parts) {
    if (part != '0' && part != '1') return std::nullopt;
    id.number = part == '1' ? inner_part(id.number) : outer_part(id.number);
  }
  return id;
}

}  // namespace smelt
