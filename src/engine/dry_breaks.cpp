#include "engine/dry_breaks.h"

#include <algorithm>

namespace smelt {

const std::vector<std::string>& usual_dry_breakers() {
  static const std::vector<std::string> usual{"\n", ":", "\"", "*"};
  return usual;
}

std::vector<int32_t> dry_breaks(const Tokenizer& tokenizer, const std::vector<std::string>& breakers) {
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    const auto is_in_piece = [&](const std::string& breaker) { return piece.find(breaker) != piece.npos; };
    if (std::any_of(breakers.begin(), breakers.end(), is_in_piece)) tokens.push_back(id);
  }
  return tokens;
}

}  // namespace smelt
