#include "grammar/json_text.h"

#include "grammar/numbers.h"

namespace smelt {
namespace {

constexpr int kDeepestIndentation = 20;

// What may not stand in a string as itself, and its escape.
struct Escape {
  uint32_t character;
  const char* text;
};
constexpr Escape kEscapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                               {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};

Codepoints unescaped() {
  Codepoints set{0x20, kLastCodepoint};
  return set.without(Codepoints::one('"')).without(Codepoints::one('\\'));
}

}  // namespace

Grammar::Expr json_form(Grammar& grammar, const Codepoints& set) {
  std::vector<Grammar::Expr> forms{grammar.characters(set.within(unescaped()))};
  Codepoints rest = set.within({0, 0x1F});
  for (const Escape& e : kEscapes) {
    if (set.contains(e.character)) forms.push_back(grammar.literal(e.text));
    rest = rest.without(Codepoints::one(e.character));
  }
  static constexpr char kHex[] = "0123456789abcdef";
  for (const Codepoints::Range& r : rest.ranges())
    for (uint32_t c = r.first; c <= r.last; ++c)
      forms.push_back(grammar.literal(std::string("\\u00") + kHex[c >> 4] + kHex[c & 15]));
  return grammar.choice(std::move(forms));
}

JsonText::JsonText(Grammar& grammar) : grammar_(grammar) {}

template <class Make>
Grammar::Expr JsonText::rule(int& number, const char* name, Make make) {
  if (number < 0) {
    number = grammar_.add_rule(name);
    grammar_.define(number, make());
  }
  return grammar_.use(number);
}

Grammar::Expr JsonText::space() {
  return rule(space_, "space", [&] {
    Codepoints indentation = Codepoints::one(' ');
    indentation.add('\t', '\t');
    const Expr line = grammar_.sequence(
        {grammar_.literal("\n"), grammar_.repeat(grammar_.characters(indentation), 0, kDeepestIndentation)});
    return grammar_.choice({Grammar::kEmpty, grammar_.literal(" "), line});
  });
}

// Any character, with the escapes that people may use where they need not. Halves of surrogate pairs are left out.
// Escapes are a rule, as they are rare; characters are not, so that masks know what follows them.
Grammar::Expr JsonText::characters(int least, int most) {
  const Expr escape = rule(escape_, "escape", [&] {
    const auto escapes =
        read_regex("\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))", false);
    return to_grammar(grammar_, *escapes, plain_form);
  });
  return grammar_.repeat(grammar_.choice({grammar_.characters(unescaped()), escape}), least, most);
}

Grammar::Expr JsonText::quoted(Expr inside) {
  return grammar_.sequence({grammar_.literal("\""), inside, grammar_.literal("\"")});
}

Grammar::Expr JsonText::string() {
  return rule(string_, "string", [&] { return quoted(characters(0, -1)); });
}

Grammar::Expr JsonText::text(const Regular& language) { return quoted(to_grammar(grammar_, language, json_form)); }

Grammar::Expr JsonText::exactly(std::string_view text) {
  std::string written = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const char* escape = nullptr;
    for (const Escape& e : kEscapes)
      if (e.character == byte) escape = e.text;
    char code[8];
    if (!escape && byte < 0x20) std::snprintf(code, sizeof code, "\\u%04x", byte), escape = code;
    if (escape)
      written += escape;
    else
      written += c;
  }
  return grammar_.literal(written + "\"");
}

Grammar::Expr JsonText::comma() { return grammar_.sequence({grammar_.literal(","), space()}); }

Grammar::Expr JsonText::entry(Expr key, Expr value) {
  return grammar_.sequence({key, grammar_.literal(":"), space(), value});
}

Grammar::Expr JsonText::list(char open, Expr items, char close) {
  return grammar_.sequence({grammar_.literal({&open, 1}), space(), items, space(), grammar_.literal({&close, 1})});
}

Grammar::Expr JsonText::any_number_of(Expr item) {
  return grammar_.optional(grammar_.sequence({item, grammar_.repeat(grammar_.sequence({comma(), item}), 0)}));
}

Grammar::Expr JsonText::object() {
  return rule(object_, "object", [&] { return list('{', any_number_of(entry(string(), value())), '}'); });
}

Grammar::Expr JsonText::array() {
  return rule(array_, "array", [&] { return list('[', any_number_of(value()), ']'); });
}

Grammar::Expr JsonText::value() {
  return rule(value_, "value", [&] {
    const Expr number = to_grammar(grammar_, *number_language({}), plain_form);
    return grammar_.choice({string(), number, object(), array(), grammar_.literal("true"), grammar_.literal("false"),
                            grammar_.literal("null")});
  });
}

}  // namespace smelt
