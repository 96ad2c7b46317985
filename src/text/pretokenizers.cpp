// The table of pre-tokenizers. The expression of each alternative stands beside it; they are those
// of the models' own tokenizer files.
#include "text/pretokenize.h"

namespace smelt {
namespace {

using namespace char_class;
using Form = Alternative::Form;
using Lead = Alternative::Lead;

Alternative contractions(bool any_case) { return {.form = Form::contraction, .any_case = any_case}; }
Alternative run(CharSet body, int64_t least = 1, int64_t most = Alternative::kUnlimited) {
  return {.body = body, .least = least, .most = most};
}
Alternative run_after(Lead lead, CharSet lead_set, CharSet body, CharSet tail = {}) {
  return {.lead = lead, .lead_set = lead_set, .body = body, .tail = tail};
}
Alternative run_after_blank(CharSet body, CharSet tail = {}) {
  return run_after(Lead::optional, one_of(blank), body, tail);
}
Alternative run_after_space(CharSet body) { return run_after(Lead::optional, one_of(space), body); }
constexpr Alternative kLines = {.form = Form::lines};
constexpr Alternative kSpaces = {.form = Form::spaces};
constexpr Alternative kTrailingSpaces = {.form = Form::trailing_spaces};

// GPT-2's: '(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
Stage gpt2_words() {
  return {
      contractions(false),
      run_after_blank(one_of(letter)),                    //  ?\p{L}+
      run_after_blank(one_of(number)),                    //  ?\p{N}+
      run_after_blank(none_of(space | letter | number)),  //  ?[^\s\p{L}\p{N}]+
      kSpaces,
  };
}

// GPT-4's and its many descendants', which differ in how many digits make a word.
Stage gpt4_words(int64_t digits) {
  return {
      contractions(true),
      // [^\r\n\p{L}\p{N}]?\p{L}+
      run_after(Lead::optional, none_of(newline | letter | number), one_of(letter)),
      run(one_of(number), 1, digits),  // \p{N}{1,digits}
      run_after_blank(none_of(space | letter | number),
                      one_of(newline)),  //  ?[^\s\p{L}\p{N}]+[\r\n]*
      kLines,
      kSpaces,
  };
}

Stage deepseek_v3_words() {
  return {
      // [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
      run_after(Lead::required, one_of(ascii_mark), one_of(latin)),
      // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
      run_after(Lead::optional, none_of(newline | letter | punctuation | symbol), one_of(letter | mark)),
      run_after_blank(one_of(punctuation | symbol), one_of(newline)),  //  ?[\p{P}\p{S}]+[\r\n]*
      kLines,
      kSpaces,
  };
}

std::vector<Pretokenizer> make_table() {
  return {
      {.names = {"glm4", "chatglm-bpe"}, .stages = {gpt4_words(3)}, .is_glm = true},
      {.names = {"llama-bpe", "llama3", "llama-v3"}, .stages = {gpt4_words(3)}, .whole_words = true, .add_bos = true},
      {.names = {"qwen2", "deepseek-r1-qwen"}, .stages = {gpt4_words(1)}},
      {.names = {"gpt-2"}, .stages = {gpt2_words()}},
      {.names = {"starcoder"}, .stages = {{run(one_of(number), 1, 1)}, gpt2_words()}},
      {.names = {"deepseek-llm"},
       .stages = {{run(one_of(newline), 1, 1)},          // [\r\n]
                  {run_after_space(one_of(cased))},      // \s?[letters, listed]+
                  {run_after_space(one_of(wide_mark))},  // \s?[!-/:-~！-／：-～‘-‟　-。]+
                  {kTrailingSpaces},                     // \s+$
                  {run(one_of(east_asian))},             // [一-龥ࠀ-一가-퟿]+
                  {run(one_of(number))}}},               // \p{N}+
      {.names = {"deepseek-coder"},
       .stages = {{run(one_of(newline), 1, 1)},            // [\r\n]
                  {run_after_space(one_of(letter))},       // \s?\p{L}+
                  {run_after_space(one_of(punctuation))},  // \s?\p{P}+
                  {run(one_of(east_asian))},               // [一-龥ࠀ-一가-퟿]+
                  {run(one_of(number), 1, 1)}}},           // \p{N}
      {.names = {"deepseek-v3", "deepseek-r1"},
       .stages = {{run(one_of(number), 1, 3)},  // \p{N}{1,3}
                  {run(one_of(han_kana))},      // [一-龥぀-ゟ゠-ヿ]+
                  deepseek_v3_words()}},
      // For files that name none.
      {.names = {"default"},
       .stages = {{run(one_of(punctuation | math_sign))},  // [\p{P}\$\+<=>\^~\|]+
                  gpt2_words(),
                  {run(one_of(number))},         // \p{N}+
                  {run(one_of(digit), 3, 3)}}},  // [0-9][0-9][0-9]
  };
}

}  // namespace

std::span<const Pretokenizer> all_pretokenizers() {
  static const std::vector<Pretokenizer> table = make_table();
  return table;
}

const Pretokenizer* find_pretokenizer(std::string_view name) {
  for (const Pretokenizer& candidate : all_pretokenizers())
    for (std::string_view alias : candidate.names)
      if (alias == name) return &candidate;
  return nullptr;
}

}  // namespace smelt
