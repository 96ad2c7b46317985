// Vocabulary: what encoding and decoding read, made from TokenizerData and checked on the way.
// Inside of Tokenizer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/bpe.h"
#include "text/charsmap.h"
#include "text/pretokenize.h"
#include "text/sentencepiece.h"
#include "text/special_tokens.h"
#include "text/text_table.h"
#include "text/tokenizer.h"
#include "text/unigram.h"

namespace smelt {

struct Vocabulary {
  std::string pre_name;
  const Pretokenizer* pre = nullptr;
  std::vector<std::string> pieces;  // the bytes of each token
  std::vector<TokenType> types;
  TextTable words;    // pieces of the normal tokens
  TextTable markers;  // pieces of all others
  // Of byte-level BPE, `special` are control and user-defined tokens, `letters` those of them that are ordinary text.
  // Of SentencePiece, `special` are control tokens; user-defined ones are `symbols`, a part of every text.
  SpecialTokens special, letters, symbols;
  std::optional<SpaceRules> spaces;     // of SentencePiece
  Charsmap charsmap;                    // before spaces are set
  std::optional<UnigramModel> unigram;  // in place of `bpe`
  BpeModel bpe;
  size_t window = 0;  // of BpeEncoder
  std::optional<int32_t> bos, eos;
  bool add_bos = false, add_eos = false;
  std::vector<int32_t> stops;  // ascending

  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < pieces.size(); }
  std::optional<int32_t> find(std::string_view piece) const;
};

// Errors: "[tokenizer] tokenizer.ggml.KEY: VALUE is wrong because ...".
Result<std::unique_ptr<const Vocabulary>> make_vocabulary(TokenizerData data);

}  // namespace smelt
