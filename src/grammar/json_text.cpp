#include "grammar/json_text.h"

#include <algorithm>
#include <cstdio>

#include "grammar/mark_tree.h"
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

// What may follow a backslash.
constexpr const char* kAnyEscape = "([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))";

// A text with the escapes that it must have, and with `more` by their numbers.
std::string escaped(std::string_view text, const Codepoints& more) {
  std::string written;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const auto known =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [&](const Escape& e) { return e.character == byte; });
    char code[8];
    if (known != std::end(kEscapes)) {
      written += known->text;
    } else if (byte < 0x20 || more.contains(byte)) {
      std::snprintf(code, sizeof code, "\\u%04x", byte);
      written += code;
    } else {
      written += c;
    }
  }
  return written;
}

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

JsonText::JsonText(Grammar& grammar, Notation notation) : grammar_(grammar), notation_(std::move(notation)) {
  for (const std::string& mark : notation_.marks) {
    const uint32_t first = as_characters(mark)[0];
    mark_begins_.add(first, first);
  }
}

template <class Make>
Grammar::Expr JsonText::rule(int& number, const char* name, Make make) {
  if (number < 0) {
    number = grammar_.add_rule(name);
    grammar_.define(number, make());
  }
  return grammar_.use(number);
}

Grammar::Expr JsonText::space() {
  if (!notation_.spaces) return Grammar::kEmpty;
  return rule(space_, "space", [&] {
    Codepoints indentation = Codepoints::one(' ');
    indentation.add('\t', '\t');
    const Expr line = grammar_.sequence(
        {grammar_.literal("\n"), grammar_.repeat(grammar_.characters(indentation), 0, kDeepestIndentation)});
    return grammar_.choice({Grammar::kEmpty, grammar_.literal(" "), line});
  });
}

// The escapes that people may use where they need not. Halves of surrogate pairs are left out.
Grammar::Expr JsonText::escape() {
  return rule(escape_, "escape",
              [&] { return to_grammar(grammar_, *read_regex(std::string("\\\\") + kAnyEscape, false), plain_form); });
}

// Escapes are a rule, as they are rare; characters are not, so that masks know what follows them.
Grammar::Expr JsonText::any_characters() {
  if (!notation_.escapes) {
    if (notation_.marks.empty()) return grammar_.repeat(grammar_.characters(Codepoints::all()), 0);
    return to_grammar(grammar_, without_marks(notation_.marks), plain_form);
  }
  if (notation_.marks.empty()) return grammar_.repeat(grammar_.choice({grammar_.characters(unescaped()), escape()}), 0);
  const auto strings = read_regex(std::string("([^\"\\\\\\x00-\\x1f]|\\\\") + kAnyEscape + ")*", false);
  return to_grammar(grammar_, *both(*strings, without_marks(notation_.marks)), plain_form);
}

// Counted strings have no character that begins a mark: to count and to look for marks at once would take many states.
Grammar::Expr JsonText::string_of_length(int least, int most) {
  const Codepoints all = (notation_.escapes ? unescaped() : Codepoints::all()).without(mark_begins_);
  std::vector<Expr> forms{grammar_.characters(all)};
  if (notation_.escapes) forms.push_back(escape());
  return quoted(grammar_.repeat(grammar_.choice(std::move(forms)), least, most));
}

Grammar::Expr JsonText::quoted(Expr inside) {
  const Expr quote = grammar_.literal(notation_.quote);
  return grammar_.sequence({quote, inside, quote});
}

Grammar::Expr JsonText::string() {
  return rule(string_, "string", [&] { return quoted(any_characters()); });
}

Grammar::Expr JsonText::text(const Regular& language) {
  const CharacterForm form = notation_.escapes ? json_form : plain_form;
  if (mark_begins_.empty()) return quoted(to_grammar(grammar_, language, form));
  return quoted(to_grammar(grammar_, without_characters(language, mark_begins_), form));
}

bool JsonText::has_mark(std::string_view text) const {
  return std::any_of(notation_.marks.begin(), notation_.marks.end(),
                     [&](const std::string& mark) { return text.find(mark) != text.npos; });
}

Grammar::Expr JsonText::written_string(const std::string& text) {
  if (notation_.escapes) {
    return grammar_.literal("\"" + escaped(text, has_mark(text) ? mark_begins_ : Codepoints()) + "\"");
  }
  return has_mark(text) ? Grammar::kNothing : quoted(grammar_.literal(text));
}

Grammar::Expr JsonText::name(std::string_view text) {
  const bool is_bare =
      !notation_.quotes_names && !text.empty() && text.find_first_of(" \t\r\n:,{}[]<>|\"") == text.npos;
  return is_bare ? grammar_.literal(text) : written_string(std::string(text));
}

Grammar::Expr JsonText::written_list(const nlohmann::ordered_json& value) {
  std::vector<Expr> parts{grammar_.literal(value.is_array() ? "[" : "{")};
  for (const auto& [key, part] : value.items()) {
    if (parts.size() > 1) parts.push_back(grammar_.literal(","));
    if (value.is_object()) parts.insert(parts.end(), {name(key), grammar_.literal(":")});
    parts.push_back(literal(part));
  }
  parts.push_back(grammar_.literal(value.is_array() ? "]" : "}"));
  return grammar_.sequence(std::move(parts));
}

Grammar::Expr JsonText::literal(const nlohmann::ordered_json& value) {
  if (value.is_string()) return written_string(value.get_ref<const std::string&>());
  return value.is_structured() ? written_list(value) : grammar_.literal(value.dump());
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

Grammar::Expr JsonText::number(bool is_integer) {
  return rule(is_integer ? integer_ : number_, is_integer ? "integer" : "number",
              [&] { return to_grammar(grammar_, *number_language({.is_integer = is_integer}), plain_form); });
}

Grammar::Expr JsonText::value() {
  return rule(value_, "value", [&] {
    const Expr number = to_grammar(grammar_, *number_language({}), plain_form);
    return grammar_.choice({string(), number, object(), array(), grammar_.literal("true"), grammar_.literal("false"),
                            grammar_.literal("null")});
  });
}

}  // namespace smelt
