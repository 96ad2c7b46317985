// JSON as grammars: values, strings, the space between them. What schemas and tool calls are made of.
#pragma once

#include <string_view>

#include "grammar/grammar.h"
#include "grammar/regular.h"

namespace smelt {

class JsonText {
 public:
  using Expr = Grammar::Expr;
  // REQUIRES: `grammar` outlives this.
  explicit JsonText(Grammar& grammar);

  Expr space();   // nothing, a space, or a new line with up to 20 of indentation
  Expr string();  // any string, quotes included
  Expr value();   // any value
  Expr object();  // any object
  Expr array();   // any array

  Expr quoted(Expr inside);              // inside of quotes
  Expr characters(int least, int most);  // of a string, most < 0: without end
  Expr text(const Regular& language);    // a string whose characters are in the language
  Expr exactly(std::string_view text);   // one string, as UTF-8
  // Brackets around `items`, which may be the empty text, with space where people put it.
  Expr list(char open, Expr items, char close);
  Expr any_number_of(Expr item);  // with commas between them
  Expr comma();
  Expr entry(Expr key, Expr value);

 private:
  // Made when it is first used.
  template <class Make>
  Expr rule(int& number, const char* name, Make make);

  Grammar& grammar_;
  int space_ = -1, escape_ = -1, string_ = -1, value_ = -1, object_ = -1, array_ = -1;
};

// A character as a JSON string has it: as itself, or escaped if it must be.
Grammar::Expr json_form(Grammar& grammar, const Codepoints& set);

}  // namespace smelt
