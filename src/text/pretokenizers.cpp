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

// GPT-2's after each digit has been cut out: StarCoder's and many others'.
std::vector<Stage> single_digits_and_gpt2_words() { return {{run(one_of(number), 1, 1)}, gpt2_words()}; }

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

// Qwen 3.5's: marks go with letters.
Stage qwen35_words() {
  return {
      contractions(true),
      // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+
      run_after(Lead::optional, none_of(newline | letter | number), one_of(letter | mark)),
      run(one_of(number), 1, 1),
      run_after_blank(none_of(space | letter | mark | number), one_of(newline)),  //  ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*
      kLines,
      kSpaces,
  };
}

// Seed-Coder's: signs do not take the newlines behind them.
Stage seed_coder_words() {
  return {
      contractions(true),
      run_after(Lead::optional, none_of(newline | letter | number), one_of(letter)),
      run(one_of(number), 1, 1),
      run_after_blank(none_of(space | letter | number)),  //  ?[^\s\p{L}\p{N}\r\n]+
      kLines,
      kSpaces,
  };
}

// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+, or the same with + and *;
// then (?i:'s|'t|'re|'ve|'m|'ll|'d)?
Alternative cased_word(bool then_contraction, ClassBits except = 0) {
  return {.form = Form::cased_word,
          .lead = Lead::optional,
          .lead_set = none_of(newline | letter | number),
          .body = {lower, false, except},
          .upper = {upper, false, except},
          .then_contraction = then_contraction};
}

// GPT-4o's ("o200k") and those after it: a word ends before a capital letter.
Stage gpt4o_words(int64_t digits, bool then_contraction) {
  return {
      cased_word(then_contraction),
      run(one_of(number), 1, digits),
      run_after_blank(none_of(space | letter | number), one_of(newline | slash)),  //  ?[^\s\p{L}\p{N}]+[\r\n/]*
      kLines,
      kSpaces,
  };
}

// Kimi's: the same with Chinese set apart.
Stage kimi_words() {
  return {
      run(one_of(han)),  // [\p{Han}]+
      cased_word(true, han),
      run(one_of(number), 1, 3),
      run_after_blank(none_of(space | letter | number), one_of(newline)),
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
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0"},
       .stages = {gpt4_words(3)},
       .whole_words = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe"}, .stages = {gpt4_words(3)}},
      {.names = {"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2", "kormo"},
       .stages = {gpt4_words(1)}},
      {.names = {"qwen35"}, .stages = {qwen35_words()}},
      {.names = {"seed-coder"}, .stages = {seed_coder_words()}},
      {.names = {"gpt-4o", "llama4", "kanana2", "minimax-m2"}, .stages = {gpt4o_words(3, true)}},
      {.names = {"tekken"}, .stages = {gpt4o_words(1, false)}, .whole_words = true, .add_bos = true},
      {.names = {"kimi-k2"}, .stages = {kimi_words()}},
      {.names = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "gigachat", "trillion", "granite-docling",
                 "mellum", "a.x-4.0", "modern-bert"},
       .stages = {gpt2_words()}},
      {.names = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .stages = single_digits_and_gpt2_words()},
      {.names = {"falcon"},
       .stages = {{run(one_of(punctuation | math_sign | backtick))},  // [\p{P}\$\+<=>\^~\|`]+
                  gpt2_words(),
                  {run(one_of(digit), 3, 3)}}},  // [0-9][0-9][0-9]
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
      {.names = {"deepseek-v3", "deepseek-r1", "hunyuan-dense", "joyai-llm"},
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

const Pretokenizer& no_pretokenizer() {
  static const Pretokenizer none = {.add_bos = true};
  return none;
}

const Pretokenizer* find_pretokenizer(std::string_view name) {
  for (const Pretokenizer& candidate : all_pretokenizers())
    for (std::string_view alias : candidate.names)
      if (alias == name) return &candidate;
  return nullptr;
}

}  // namespace smelt
