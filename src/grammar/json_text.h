// JSON as grammars: values, strings, the space between them. What schemas and tool calls are made of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/regular.h"

namespace smelt {

// How values are written: as JSON has it, or in the notation of a family of models.
struct Notation {
  std::string quote = "\"";             // around strings
  bool escapes = true;                  // false: a string stands as it is
  bool quotes_names = true;             // false: names of properties stand bare where they can
  bool spaces = true;                   // people's space between the parts
  std::vector<std::string> marks = {};  // none of these stands in a string
};

class JsonText {
 public:
  using Expr = Grammar::Expr;
  // REQUIRES: `grammar` outlives this.
  explicit JsonText(Grammar& grammar, Notation notation = {});

  Grammar& grammar() { return grammar_; }

  Expr space();                  // nothing, a space, or a new line with up to 20 of indentation
  Expr string();                 // any string, quotes included
  Expr number(bool is_integer);  // any
  Expr value();                  // any value
  Expr object();                 // any object
  Expr array();                  // any array

  Expr string_of_length(int least, int most);         // in characters; most < 0: without end
  Expr text(const Regular& language);                 // a string whose characters are in the language
  Expr name(std::string_view text);                   // of a property
  Expr literal(const nlohmann::ordered_json& value);  // exactly this value
  // Brackets around `items`, which may be the empty text, with space where people put it.
  Expr list(char open, Expr items, char close);
  Expr any_number_of(Expr item);  // with commas between them
  Expr comma();
  Expr entry(Expr key, Expr value);

 private:
  // Made when it is first used.
  template <class Make>
  Expr rule(int& number, const char* name, Make make);
  Expr quoted(Expr inside);
  Expr any_characters();
  Expr escape();
  bool has_mark(std::string_view text) const;
  Expr written_string(const std::string& text);
  Expr written_list(const nlohmann::ordered_json& value);

  Grammar& grammar_;
  Notation notation_;
  Codepoints mark_begins_;  // characters that begin marks
  int space_ = -1, number_ = -1, integer_ = -1, escape_ = -1, string_ = -1, value_ = -1, object_ = -1, array_ = -1;
};

// A character as a JSON string has it: as itself, or escaped if it must be.
Grammar::Expr json_form(Grammar& grammar, const Codepoints& set);

}  // namespace smelt
