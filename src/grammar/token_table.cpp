#include "grammar/token_table.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr char kControl = '\xFF';  // in no UTF-8

}  // namespace

TokenTable::TokenTable(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  for (size_t id = 0; id < pieces_.size(); ++id)
    if (!pieces_[id].empty()) order_.push_back(static_cast<int32_t>(id));
  std::sort(order_.begin(), order_.end(), [&](int32_t a, int32_t b) {
    const int compared = piece(a).compare(piece(b));  // of unsigned bytes
    return compared != 0 ? compared < 0 : a < b;
  });
  shared_.resize(order_.size());
  for (int32_t i = 1; i < size(); ++i) {
    const std::string_view a = text(i - 1), b = text(i);
    const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    shared_[static_cast<size_t>(i)] = static_cast<int32_t>(end - a.begin());
  }
  int32_t place = 0;
  for (int byte = 0; byte <= 256; ++byte) {
    while (place < size() && static_cast<uint8_t>(text(place)[0]) < byte) ++place;
    first_[static_cast<size_t>(byte)] = place;
  }
}

std::shared_ptr<const TokenTable> TokenTable::of(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces(static_cast<size_t>(tokenizer.size()));
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    if (tokenizer.is_control(id))
      pieces[static_cast<size_t>(id)] = control(piece);
    else if (piece.find(kControl) == piece.npos)
      pieces[static_cast<size_t>(id)] = piece;
  }
  return std::make_shared<const TokenTable>(std::move(pieces));
}

std::string TokenTable::control(std::string_view name) { return kControl + std::string(name); }

std::string TokenTable::spelling(std::string_view mark) const {
  const std::string as_control = control(mark);
  const auto at = std::lower_bound(order_.begin(), order_.end(), as_control,
                                   [&](int32_t token, const std::string& text) { return piece(token) < text; });
  return at != order_.end() && piece(*at) == as_control ? as_control : std::string(mark);
}

}  // namespace smelt
