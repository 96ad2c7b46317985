#include "grammar/gbnf.h"

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/cursor.h"

namespace smelt {
namespace {

bool is_name(uint32_t c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text, "[grammar]") {}

  Result<Grammar> read() {
    skip_space(true);
    while (!at_.at_end()) {
      SMELT_CHECK(read_rule());
      skip_space(true);
    }
    const auto root = rules_.find("root");
    if (root == rules_.end() || !grammar_.is_defined(root->second))
      return Error{"[grammar] there is no rule 'root'; a text is what that rule says"};
    grammar_.set_root(grammar_.use(root->second));
    return std::move(grammar_);
  }

 private:
  using Expr = Grammar::Expr;

  void skip_space(bool over_lines) {
    for (uint32_t c = at_.peek(); c != Cursor::kEnd; c = at_.peek()) {
      const bool is_line_end = c == '\n' || c == '\r';
      if (c == '#') {
        while (!at_.at_end() && at_.peek() != '\n' && at_.peek() != '\r') at_.take();
      } else if (c == ' ' || c == '\t' || (is_line_end && over_lines)) {
        at_.take();
      } else {
        return;
      }
    }
  }

  std::string name() {
    const size_t begin = at_.position();
    while (is_name(at_.peek())) at_.take();
    return std::string(at_.from(begin));
  }

  int rule(const std::string& name) {
    const auto [it, is_new] = rules_.try_emplace(name, 0);
    if (is_new) it->second = grammar_.add_rule(name);
    return it->second;
  }

  Status read_rule() {
    const std::string left = name();
    if (left.empty()) return at_.error("a rule begins with its name, as in: root ::= \"yes\" | \"no\"");
    skip_space(false);
    if (!at_.take_if("::=")) return at_.error("behind the name of rule '" + left + "' ::= is missing");
    skip_space(true);
    SMELT_TRY(body, alternatives(0));
    if (grammar_.is_defined(rule(left))) return at_.error("rule '" + left + "' is defined twice");
    grammar_.define(rule(left), body);
    if (!at_.at_end() && at_.peek() != '\n' && at_.peek() != '\r') return at_.error("this does not belong to a rule");
    return {};
  }

  Result<Expr> alternatives(int depth) {
    if (depth > kDeepestGrammar)
      return at_.error("more than " + std::to_string(kDeepestGrammar) + " groups inside of each other");
    std::vector<Expr> parts;
    while (true) {
      SMELT_TRY(part, sequence(depth));
      parts.push_back(part);
      const size_t here = at_.position();
      skip_space(true);
      if (!at_.take_if('|')) {
        if (depth == 0) at_.back_to(here);
        return grammar_.choice(std::move(parts));
      }
      skip_space(true);
    }
  }

  Result<Expr> sequence(int depth) {
    std::vector<Expr> parts;
    while (true) {
      skip_space(depth > 0);
      const uint32_t c = at_.peek();
      Expr part;
      if (c == '"') {
        SMELT_TRY(read, literal());
        part = read;
      } else if (c == '[') {
        SMELT_TRY(read, character_class());
        part = read;
      } else if (c == '(') {
        at_.take();
        skip_space(true);
        SMELT_TRY(read, alternatives(depth + 1));
        if (!at_.take_if(')')) return at_.error("a group without its )");
        part = read;
      } else if (c == '.') {
        at_.take();
        part = grammar_.characters(Codepoints::all());
      } else if (is_name(c)) {
        part = grammar_.use(rule(name()));
      } else if (c == '<' || c == '!') {
        return at_.error("tokens in angle brackets are not known here; write their text as a literal");
      } else {
        return grammar_.sequence(std::move(parts));
      }
      SMELT_TRY(repeated, repetitions(part));
      parts.push_back(repeated);
    }
  }

  Result<Expr> repetitions(Expr part) {
    for (int count = 0;; ++count) {
      if (count > kDeepestGrammar) return at_.error("too many repetitions of one thing");
      if (at_.take_if('*')) {
        part = grammar_.repeat(part, 0);
      } else if (at_.take_if('+')) {
        part = grammar_.repeat(part, 1);
      } else if (at_.take_if('?')) {
        part = grammar_.optional(part);
      } else if (at_.take_if('{')) {
        SMELT_TRY(repeated, counted(part));
        part = repeated;
      } else {
        return part;
      }
    }
  }

  Result<Expr> counted(Expr part) {
    skip_space(false);
    int least = at_.number();
    skip_space(false);
    int most = least;
    if (at_.take_if(',')) {
      skip_space(false);
      most = at_.number();
      if (least < 0) least = most < 0 ? -1 : 0;
      skip_space(false);
    }
    if (least < 0 || !at_.take_if('}')) return at_.error("a repetition is {n}, {n,}, {,m} or {n,m}");
    if (most >= 0 && most < least) return at_.error("a repetition of at least more than at most");
    if (least > kMostPositions || most > kMostPositions)
      return at_.error("a repetition above " + std::to_string(kMostPositions));
    return grammar_.repeat(part, least, most);
  }

  // One character of a literal or a class, escapes resolved.
  Result<uint32_t> character() {
    const uint32_t c = at_.take();
    if (c == Cursor::kEnd || c == '\n') return at_.error("the line ends within a literal or a class");
    if (c != '\\') return c;
    uint32_t value = at_.take();
    switch (value) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': value = at_.hexadecimal(2); break;
      case 'u': value = at_.hexadecimal(4); break;
      case 'U': value = at_.hexadecimal(8); break;
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/': return value;
      default: return at_.error("an escape that is not known; write \\\\ for a backslash");
    }
    if (value > kLastCodepoint || (value >= 0xD800 && value < 0xE000))
      return at_.error("an escape that stands for no character");
    return value;
  }

  Result<Expr> literal() {
    at_.take();
    std::string text;
    while (!at_.take_if('"')) {
      SMELT_TRY(c, character());
      append_utf8(text, c);
    }
    return grammar_.literal(text);
  }

  Result<Expr> character_class() {
    at_.take();
    const bool is_inverted = at_.take_if('^');
    Codepoints set;
    while (!at_.take_if(']')) {
      SMELT_TRY(first, character());
      uint32_t last = first;
      const size_t here = at_.position();
      if (at_.take_if('-') && at_.peek() != ']') {
        SMELT_TRY(end, character());
        last = end;
      } else {
        at_.back_to(here);
      }
      if (last < first) return at_.error("a range of a class whose end is before its beginning");
      set.add(first, last);
    }
    return grammar_.characters(is_inverted ? set.complement() : set);
  }

  Cursor at_;
  Grammar grammar_;
  std::unordered_map<std::string, int> rules_;
};

}  // namespace

Result<Grammar> read_gbnf(std::string_view text) {
  if (text.size() > kLongestGrammar)
    return Error{"[grammar] the grammar has " + std::to_string(text.size()) + " bytes; at most " +
                 std::to_string(kLongestGrammar) + " are read"};
  return Reader(text).read();
}

}  // namespace smelt
