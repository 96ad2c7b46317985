// SentencePiece's BPE, as GGUF files have it with tokenizer.ggml.model = "llama" (Llama 2, Mistral, Gemma, Phi 3):
// what differs from byte-level BPE.
//
// A text is one word, spaces included; tokens spell a space with U+2581. A word begins as characters. Two neighbours
// merge where their text together is a token, the one with the highest score first. Characters that no token has become
// tokens of their bytes, "<0xE2>".
//
//   scores: "▁the" -1, "th" -2, "▁t" -3, "he" -4
//   " the"  ▁ t h e -> ▁ th e   where it ends: neither "▁th" nor "the" is a token, so "▁the" is out of reach
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/bpe.h"
#include "text/tokenizer.h"

namespace smelt {

// What happens to the spaces of a text, or of a part between control tokens, before it is cut into tokens.
struct SpaceRules {
  bool prefix = true;    // one is put before it
  bool squeeze = false;  // first, those at its ends are dropped and several in a row become one
};
// Also turns U+2581 into a space. An empty text stays empty.
std::string with_spaces_set(std::string_view text, SpaceRules rules);

// The bytes that a token stands for: "▁the" " the", "<0x0A>" a newline; control and unknown ones stand for themselves.
// Nothing for a byte token that is spelled in another way.
std::optional<std::string> sentencepiece_bytes(std::string_view token, TokenType type);

// Merges and characters of the normal and unused tokens among `pieces`; byte_ids of the byte tokens. Of equal pieces
// the first counts. REQUIRES: three lists of equal lengths; `pieces` outlives the model; no piece of these tokens is
// longer than kLongestPiece; no score is a NaN.
constexpr size_t kLongestPiece = 1024;  // bytes; every way to cut one in two is looked at
BpeModel make_sentencepiece_model(std::span<const std::string> pieces, std::span<const TokenType> types,
                                  std::span<const double> scores, std::optional<int32_t> unknown);

}  // namespace smelt
