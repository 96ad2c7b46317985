// Classes of characters that pre-tokenizers ask for, as bits: general categories of Unicode (from
// utf8proc), white space, and the few hand-picked sets in published pre-tokenizer expressions.
#pragma once

#include <cstdint>

namespace smelt {

using ClassBits = uint32_t;

namespace char_class {
inline constexpr ClassBits letter = 1 << 0;       // \p{L}
inline constexpr ClassBits mark = 1 << 1;         // \p{M}
inline constexpr ClassBits number = 1 << 2;       // \p{N}
inline constexpr ClassBits punctuation = 1 << 3;  // \p{P}
inline constexpr ClassBits symbol = 1 << 4;       // \p{S}
inline constexpr ClassBits space = 1 << 5;        // \s: the property White_Space
inline constexpr ClassBits newline = 1 << 6;      // [\r\n]
inline constexpr ClassBits blank = 1 << 7;        // the character U+0020
inline constexpr ClassBits latin = 1 << 8;        // [A-Za-z]
inline constexpr ClassBits digit = 1 << 9;        // [0-9]
inline constexpr ClassBits ascii_mark = 1 << 10;  // [!-/:-@[-`{-~], the 32 of ASCII
inline constexpr ClassBits math_sign = 1 << 11;   // [$+<=>^~|]
inline constexpr ClassBits han_kana = 1 << 12;    // [一-龥぀-ゟ゠-ヿ]
inline constexpr ClassBits east_asian = 1 << 13;  // [一-龥ࠀ-一가-퟿]
inline constexpr ClassBits cased = 1 << 14;       // the letters that deepseek-llm lists
inline constexpr ClassBits wide_mark = 1 << 15;   // [!-/:-~！-／：-～‘-‟　-。]
inline constexpr ClassBits upper = 1 << 16;       // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
inline constexpr ClassBits lower = 1 << 17;       // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
inline constexpr ClassBits slash = 1 << 18;       // the character /
inline constexpr ClassBits backtick = 1 << 19;    // the character `
inline constexpr ClassBits han = 1 << 20;         // \p{Han}: the script
}  // namespace char_class

// The classes of each codepoint, of size kCodepoints. Computed on first use (some milliseconds).
inline constexpr uint32_t kCodepoints = 0x110000;
const ClassBits* class_table();

// "any of these classes", or none of them; `except` takes classes out again. Bytes that are not UTF-8 have no class at
// all.
struct CharSet {
  ClassBits classes = 0;
  bool negated = false;
  ClassBits except = 0;
  bool contains(ClassBits bits) const { return ((bits & classes) != 0) != negated && !(bits & except); }
};
constexpr CharSet one_of(ClassBits classes) { return {classes, false}; }
constexpr CharSet none_of(ClassBits classes) { return {classes, true}; }

}  // namespace smelt
