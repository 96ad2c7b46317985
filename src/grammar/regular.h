// Regular: a regular language over characters, as a graph whose edges are classes of characters. What regular
// expressions, numbers within bounds and strings of some length become on their way into a grammar.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/codepoints.h"
#include "grammar/grammar.h"

namespace smelt {

struct Regular {
  struct Edge {
    int from;
    Codepoints on;  // empty: nothing is read
    int to;
  };
  int states = 1;  // it begins in state 0
  std::vector<Edge> edges;
  std::vector<int> ends;

  int add_state() { return states++; }
  void connect(int from, Codepoints on, int to) { edges.push_back({from, std::move(on), to}); }
  void skip(int from, int to) { edges.push_back({from, {}, to}); }
};

// A regular expression as JSON Schema means it (ECMA-262), without what is not regular: look-around, back references,
// \b. `search`: a text matches if a part of it does, as for `pattern`; else the whole text must.
Result<Regular> read_regex(std::string_view text, bool search);

// Its texts of `least` to `most` characters; most < 0: without end.
Result<Regular> with_length(const Regular& language, int least, int most);

// All texts but these.
Regular all_but(const std::vector<std::string>& texts);

// All texts in which none of these marks stands.
Regular without_marks(const std::vector<std::string>& marks);

// Texts of one language that are texts of the other, too. An Error: more states than a grammar may have.
Result<Regular> both(const Regular& a, const Regular& b);

// Its texts that have none of these characters.
Regular without_characters(Regular language, const Codepoints& characters);

// How a character of a class is written: as itself, or escaped as in a JSON string.
using CharacterForm = Grammar::Expr (*)(Grammar&, const Codepoints&);
Grammar::Expr plain_form(Grammar& grammar, const Codepoints& set);

Grammar::Expr to_grammar(Grammar& grammar, const Regular& language, CharacterForm form);

}  // namespace smelt
