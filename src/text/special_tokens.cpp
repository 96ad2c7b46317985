#include "text/special_tokens.h"

#include <algorithm>

namespace smelt {
namespace {

// Orders like the sorted texts do: a text that has ended comes first.
int byte_at(std::string_view text, size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : -1; }

}  // namespace

SpecialTokens::SpecialTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const Token& a, const Token& b) { return a.text < b.text; });
  for (const Token& token : tokens_) ++first_byte_at_[byte_at(token.text, 0) + 1];
  for (size_t b = 1; b < first_byte_at_.size(); ++b) first_byte_at_[b] += first_byte_at_[b - 1];
}

// Narrows the range of tokens that begin with the text so far, byte by byte. The shortest of them
// stands first: when it ends here it is a match, and longer ones may follow.
std::optional<SpecialTokens::Hit> SpecialTokens::longest_at(std::string_view text, size_t begin) const {
  int first_byte = byte_at(text, begin);
  auto low = tokens_.begin() + first_byte_at_[first_byte];
  auto high = tokens_.begin() + first_byte_at_[first_byte + 1];
  std::optional<Hit> longest;
  for (size_t length = 1; low != high; ++length) {
    if (low->text.size() == length) {
      longest = {begin, begin + length, low->id};
      ++low;
    }
    if (begin + length == text.size()) break;
    int next = byte_at(text, begin + length);
    low = std::partition_point(low, high, [&](const Token& t) { return byte_at(t.text, length) < next; });
    high = std::partition_point(low, high, [&](const Token& t) { return byte_at(t.text, length) == next; });
  }
  return longest;
}

std::optional<SpecialTokens::Hit> SpecialTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    int byte = byte_at(text, begin);
    if (first_byte_at_[byte] == first_byte_at_[byte + 1]) continue;
    if (auto hit = longest_at(text, begin)) return hit;
  }
  return std::nullopt;
}

}  // namespace smelt
