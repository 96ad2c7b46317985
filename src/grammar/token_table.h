// TokenTable: the texts of a vocabulary in sorted order, so that tokens that begin alike are read together.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace smelt {

class TokenTable {
 public:
  // pieces[id]: the bytes of a token; empty for tokens that no grammar may choose (control tokens).
  explicit TokenTable(std::vector<std::string> pieces);

  // All tokens: text as it is, control tokens as their name behind a byte that no text has, so that no grammar for text
  // chooses one, and a grammar that means one chooses nothing else.
  static std::shared_ptr<const TokenTable> of(const Tokenizer& tokenizer);
  static std::string control(std::string_view name);

  // How a grammar writes a mark such as "<tool_call>": as the control token of that name where there is one.
  std::string spelling(std::string_view mark) const;

  int32_t vocabulary_size() const { return static_cast<int32_t>(pieces_.size()); }
  std::string_view piece(int32_t token) const { return pieces_[static_cast<size_t>(token)]; }

  // --- by place in the sorted order
  int32_t size() const { return static_cast<int32_t>(order_.size()); }
  int32_t token(int32_t place) const { return order_[static_cast<size_t>(place)]; }
  std::string_view text(int32_t place) const { return piece(token(place)); }
  // How many bytes it begins with like the one before.
  int32_t shared(int32_t place) const { return shared_[static_cast<size_t>(place)]; }
  // The first place whose text begins with this byte or a greater one. `byte` may be 256.
  int32_t first_of(int byte) const { return first_[static_cast<size_t>(byte)]; }

 private:
  std::vector<std::string> pieces_;
  std::vector<int32_t> order_, shared_;
  std::array<int32_t, 257> first_{};
};

}  // namespace smelt
