// SentencePiece's table of what characters become before a text is cut into tokens, such as "ﬁ" "fi" (NFKC):
// tokenizer.ggml.precompiled_charsmap.
//
// Its bytes are the size of a trie in bytes (u32), the trie, and texts that end with a zero byte. The trie is a
// double array as Darts-clone has it (https://github.com/s-yata/darts-clone): units of 32 bits; a key's value is where
// its text begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt {

class Charsmap {
 public:
  Charsmap() = default;  // changes nothing
  // Nothing where the bytes are no such table.
  static std::optional<Charsmap> parse(std::string_view bytes);

  // The longest key at each place becomes its text; what no key begins with stays as it is.
  std::string applied_to(std::string_view text) const;

 private:
  struct Match {
    size_t length = 0;  // of the key; 0: none
    uint32_t value = 0;
  };
  Match longest_at(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace smelt
