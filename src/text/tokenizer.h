// Tokenizer: text to token ids and back, by byte-level BPE ("gpt2"), by SentencePiece's BPE ("llama") or by its unigram
// model ("t5").
//
// encode runs in three steps, each in its own file:
//   special_tokens.h   "<|user|>Hi 'you'"  ->  [<|user|>] "Hi 'you'"
//   pretokenize.h      "Hi 'you'"          ->  "Hi" " '" "you" "'"
//   bpe.h              " '"                ->  its bytes, merged by the file's rules
// (SentencePiece has no words: its second step sets spaces, sentencepiece.h.)
// Everything takes time linear in the text. Decoding is a lookup: a token's piece is its bytes.
//
// The data comes from the keys `tokenizer.ggml.*` of a GGUF file, read by tokenizer_gguf.cpp into
// TokenizerData. A Tokenizer is immutable after construction: any number of threads may use one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smelt {

class GgufFile;
struct Vocabulary;

// The numbers of tokenizer.ggml.token_type.
enum class TokenType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

// What a file says about its vocabulary, not yet checked. Tests and fuzzers fill it by hand.
struct TokenizerData {
  std::string model = "gpt2";   // tokenizer.ggml.model: "gpt2", "llama" or "t5"
  std::string pre = "default";  // tokenizer.ggml.pre
  // gpt2: in the byte-level alphabet ("Ġthe"), but control and user-defined ones as plain text.
  // llama: with U+2581 for spaces ("▁the"), and "<0x0A>" for those that are a byte.
  std::vector<std::string> tokens;
  std::vector<int64_t> types;       // TokenType of each token; empty: all normal
  std::vector<std::string> merges;  // gpt2: "left right", lowest rank first
  std::vector<double> scores;       // llama: of each token; of two merges, that to the higher score comes first.
                                    // t5: logarithms of probabilities, of which a text gets the greatest sum
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding;
  std::vector<int64_t> more_eos;         // tokenizer.ggml.eos_token_ids of some files
  std::optional<bool> add_bos, add_eos;  // absent: as usual for the pre-tokenizer
  // llama and t5: a space before a text, unless false; blanks at the ends dropped, others made one (t5: unless false).
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  std::string charsmap;  // t5: see charsmap.h; may be empty
};

class Tokenizer {
 public:
  static Result<Tokenizer> from_gguf(const GgufFile& file);
  static Result<Tokenizer> from_data(TokenizerData data);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes are accepted. `parse_special` finds the texts of control and user-defined tokens in
  // `text` and takes the longest; switch it off for text that a user typed. BOS and EOS are added
  // where the file asks for it, unless `add_special` is off. When `cancel` becomes true, what is left of the text is
  // passed over.
  std::vector<int32_t> encode(std::string_view text, bool parse_special = true, bool add_special = true,
                              const std::atomic<bool>* cancel = nullptr) const;

  // The same for a text in runs of different trust: special tokens are found only inside of runs that ask for it, and
  // what lies between them is encoded as one text, whatever runs it is made of.
  struct Run {
    std::string_view text;
    bool parse_special;
  };
  std::vector<int32_t> encode_runs(std::span<const Run> runs) const;

  // The bytes of a token; half a character is possible. Empty for an id outside the vocabulary.
  std::string_view piece(int32_t id) const;
  // All pieces together, without the space that encode puts before a text. decode(encode(text)) == text for every
  // string of bytes, if nothing was added and every byte has a token (smelt drops those that have none, as the models'
  // own tokenizers do); with SentencePiece, U+2581 comes back as a space.
  std::string decode(std::span<const int32_t> ids) const;

  // True for every token that ends a turn.
  bool is_stop(int32_t id) const;
  const std::vector<int32_t>& stop_tokens() const;  // ascending
  // True for control tokens such as <|user|>: not part of the text of an answer.
  bool is_control(int32_t id) const;

  int32_t size() const;
  std::optional<int32_t> find(std::string_view piece) const;  // the token with exactly these bytes
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  bool adds_bos() const;  // with add_special
  bool adds_eos() const;
  const std::string& pre() const;  // name of the pre-tokenizer
  bool is_byte_level() const;      // not SentencePiece's

 private:
  explicit Tokenizer(std::unique_ptr<const Vocabulary> vocabulary);
  std::unique_ptr<const Vocabulary> vocabulary_;
};

// Turns a stream of tokens into text as it arrives, in whole UTF-8 characters.
//   push(id of "\xe2\x82") == ""   push(id of "\xac!") == "€!"
// The pieces pushed, with invalid bytes replaced by U+FFFD, equal the concatenation of all results
// and flush().
class StreamDecoder {
 public:
  // REQUIRES: `tokenizer` outlives this.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool hide_control = false)
      : tokenizer_(&tokenizer), hide_control_(hide_control) {}
  std::string push(int32_t id);
  // What was held back, as U+FFFD; then ready for another stream.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool hide_control_;
  std::string held_;  // the start of a character: at most 3 bytes
};

}  // namespace smelt
