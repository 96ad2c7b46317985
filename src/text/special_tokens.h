// SpecialTokens: finds the texts of special tokens in a text, the leftmost and of these the
// longest.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace smelt {

class SpecialTokens {
 public:
  struct Token {
    std::string_view text;  // not empty; must outlive this
    int32_t id;
  };
  struct Hit {
    size_t begin, end;
    int32_t id;
  };

  // A position of the text may be compared with this many bytes, so the time is linear in the text.
  static constexpr size_t kLongestText = 512;

  explicit SpecialTokens(std::vector<Token> tokens = {});
  // The first one that begins at `from` or later.
  std::optional<Hit> find(std::string_view text, size_t from) const;

 private:
  std::optional<Hit> longest_at(std::string_view text, size_t begin) const;

  std::vector<Token> tokens_;                  // sorted by text
  std::array<uint32_t, 257> first_byte_at_{};  // tokens_ from [b] to [b + 1] begin with byte b
};

}  // namespace smelt
