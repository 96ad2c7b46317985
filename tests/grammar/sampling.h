// Texts of a grammar: whether it has one, and random ones, chosen token by token as a model would.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "grammar/constraint.h"

namespace smelt::test {

inline bool accepts(const Grammar& grammar, std::string_view text) {
  const auto automaton = Automaton::from(grammar);
  REQUIRE_MESSAGE(automaton.ok(), (automaton ? "" : automaton.error().message));
  Matcher matcher(*automaton);
  Matcher::State state = matcher.start();
  for (char c : text) state = matcher.step(state, static_cast<uint8_t>(c));
  return matcher.is_complete(state);
}

// All bytes, and pieces of several that cross the borders of what grammars name.
inline std::shared_ptr<const TokenTable> small_vocabulary() {
  std::vector<std::string> pieces{""};  // a token that no grammar may choose
  for (int b = 0; b < 256; ++b) pieces.emplace_back(1, static_cast<char>(b));
  for (const char* p :
       {"\",",   "\": ",     "\":",      "{\"",          "\"}",  "}}", "]]",   "], [", "true", "tru", "false", "null",
        "12",    "345",      "-1",       "0.",           ".5",   "e+", "\\\"", "\\n",  "abc",  "a\"", "na",    "name",
        "ab\":", "\xC3\xA4", "\xE2\x82", "\xE2\x82\xAC", "\n  ", ", ", "},{",  "}\n",  "1,",   "-0",  "00",    " ",
        "  ",    "a",        "b"})
    pieces.emplace_back(p);
  return std::make_shared<const TokenTable>(std::move(pieces));
}

// A text of at most about `length` bytes where the grammar lets it end. nullopt: it did not come to an end in time.
inline std::optional<std::string> random_text(Constraint& constraint, const TokenTable& tokens, std::mt19937& random,
                                              size_t length = 200) {
  std::string text;
  while (text.size() < 20 * length) {
    const bool is_long = text.size() > length;
    if (constraint.can_end() && (is_long || random() % 4 == 0)) return text;
    const TokenMask& mask = constraint.mask();
    std::vector<int32_t> allowed;
    for (int32_t t = 0; t < tokens.vocabulary_size(); ++t)
      if (mask.has(t)) allowed.push_back(t);
    if (allowed.empty()) return constraint.can_end() ? std::optional(text) : std::nullopt;
    // What closes something comes first once the text is long, so that it ends.
    int32_t next = allowed[random() % allowed.size()];
    if (is_long)
      for (int32_t t : allowed)
        if (std::string_view("\"]},:0").find(tokens.piece(t)[0]) != std::string_view::npos && random() % 3 == 0)
          next = t;
    if (!constraint.accept(next)) throw std::logic_error("the mask allows a token that the grammar refuses");
    text += tokens.piece(next);
  }
  return std::nullopt;
}

}  // namespace smelt::test
