// SentencePiece's unigram model (tokenizer.ggml.model = "t5"): of all ways to write a text as tokens, the one with the
// greatest sum of scores (Kudo 2018, arXiv:1804.10959), by the algorithm of Viterbi.
//
//   scores: " a" -1, "b" -2, "ab" -4, "c" -3, " " -3
//   " abc"  " a" "b" "c" -6, " " "ab" "c" -10: the first one
//
// A character that no token has costs 10 more than the worst token. Sums are kept as floats, as the library keeps
// them: where two ways cost nearly the same, its rounding decides.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace smelt {

class UnigramModel {
 public:
  // The pieces of normal and user-defined tokens count, of equal ones the first. REQUIRES: lists of equal lengths, no
  // piece longer than kLongestPiece (sentencepiece.h), no score is a NaN.
  UnigramModel(std::span<const std::string> pieces, std::span<const TokenType> types, std::span<const double> scores,
               int32_t unknown);

  // Appends the tokens of a text whose spaces are set. What no token has becomes the tokens of its bytes or, where one
  // has none, the unknown token (-1: nothing), once for all that follow each other. Time and memory are linear.
  void encode(std::string_view text, std::vector<int32_t>& out) const;

 private:
  // Bytes of pieces, in the order of their beginnings: the children of a node lie together, by byte.
  struct TrieNode {
    uint32_t first_child = 0;
    uint16_t children = 0;
    uint8_t byte = 0;
    int32_t id = -1;  // of the piece that ends here
  };
  struct Step {
    int32_t id = -1;  // -1: an unknown character
    uint32_t begin = kNowhere;
    float score = 0;  // of all from the beginning of the text
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;

  void build(std::span<const std::string> pieces, std::vector<int32_t> sorted);
  const TrieNode* child(const TrieNode& node, uint8_t byte) const;
  void encode_part(std::string_view text, std::vector<int32_t>& out) const;
  void add_steps(std::string_view text, size_t begin, std::span<Step> steps) const;
  void append_unknown(std::string_view character, std::vector<int32_t>& out, bool& after_unknown) const;

  std::vector<TrieNode> nodes_;
  std::vector<double> scores_;
  std::array<int32_t, 256> byte_ids_{};
  float unknown_score_ = 0;
  int32_t unknown_ = -1;
};

}  // namespace smelt
