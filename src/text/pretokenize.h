// Pre-tokenizers: text to words, each of which is then encoded by itself.
//
//   llama-bpe:  "I'll be 12345!"  ->  "I" "'ll" " be" " " "123" "45" "!"
//
// Published pre-tokenizers are regular expressions. All of them are made of a few forms, so each is
// data here (the table is in pretokenizers.cpp): a list of stages; a stage is one expression, an
// ordered list of alternatives. A stage cuts the pieces of the stage before it, so that each match
// and each gap between matches is a piece. Matching needs no backtracking and takes time linear in
// the text.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/char_class.h"

namespace smelt {

// One alternative of an expression.
struct Alternative {
  enum class Form {
    run,              // lead? body{least,most} tail*   " ?[^\s\p{L}\p{N}]+[\r\n]*"
    cased_word,       // see below                      "lead?upper*lower+(?i:'s|'t|...)?"
    contraction,      // see any_case                   "'s|'t|'re|'ve|'m|'ll|'d"
    lines,            // all that ends in newlines      "\s*[\r\n]+"
    spaces,           // the last of several stays      "\s+(?!\S)|\s+"
                      // with the word that follows
    trailing_spaces,  // at the end of the piece        "\s+$"
  };
  enum class Lead { none, optional, required };
  static constexpr int64_t kUnlimited = INT64_MAX;

  Form form = Form::run;
  bool any_case = false;
  Lead lead = Lead::none;
  CharSet lead_set = {};
  CharSet body = {};
  int64_t least = 1, most = kUnlimited;
  CharSet tail = {};  // the empty set unless given
  // Of cased_word, which is lead?upper*lower+ or, where that does not match, lead?upper+lower*, each with or without a
  // contraction. `body` is lower. Both sets hold marks and letters without case.
  CharSet upper = {};
  bool then_contraction = false;
};

using Stage = std::vector<Alternative>;

struct Pretokenizer {
  std::vector<std::string_view> names;  // values of tokenizer.ggml.pre
  std::vector<Stage> stages;
  // How tokenizers of this family behave unless their files say otherwise.
  bool whole_words = false;  // a word that is a token stays so without merges ("ignore_merges")
  bool add_bos = false;
  bool is_glm = false;  // the mark of the next speaker ends a turn
};

// Null for an unknown name.
const Pretokenizer* find_pretokenizer(std::string_view name);
std::span<const Pretokenizer> all_pretokenizers();
// For vocabularies in which a text is one word: SentencePiece's.
const Pretokenizer& no_pretokenizer();

// Cuts one piece by one stage, from left to right.
class StageScanner {
 public:
  StageScanner(const Stage& stage, std::string_view text) : stage_(&stage), text_(text) {}
  // The next piece; empty at the end.
  std::string_view next();

 private:
  size_t match(size_t pos);
  size_t match(const Alternative& alternative, size_t pos);
  void scan_spaces(size_t pos);

  const Stage* stage_;
  std::string_view text_;
  size_t done_ = 0;       // pieces up to here have been handed out
  size_t match_end_ = 0;  // of a match that begins at done_ and has not been handed out; done_ if there is none
  // The run of white space around the last position asked for: read once, however many positions in
  // it are tried.
  size_t spaces_end_ = 0;    // 0: nothing known
  size_t newlines_end_ = 0;  // after the last newline in it; 0: it has none
  size_t last_space_ = 0;    // where its last character begins
};

// Calls visit(word) for each word of the text, in order; together they are the text.
template <class Visit>
void split_words(std::span<const Stage> stages, std::string_view text, const Visit& visit) {
  if (stages.empty()) return visit(text);
  StageScanner scanner(stages.front(), text);
  // As deep as the pre-tokenizer has stages: six at most.
  for (auto piece = scanner.next(); !piece.empty(); piece = scanner.next())
    split_words(stages.subspan(1), piece, visit);
}

}  // namespace smelt
