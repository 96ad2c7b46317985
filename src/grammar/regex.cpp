// Reads regular expressions into Regular. A group that is repeated {n,m} times is read anew each time.
#include "grammar/cursor.h"
#include "grammar/regular.h"

namespace smelt {
namespace {

Codepoints digits() { return {'0', '9'}; }

Codepoints word_characters() {
  Codepoints set{'a', 'z'};
  set.add('A', 'Z');
  set.add('0', '9');
  set.add('_', '_');
  return set;
}

Codepoints spaces() {
  Codepoints set{'\t', '\r'};
  for (uint32_t c : {0x20u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu}) set.add(c, c);
  set.add(0x2000, 0x200A);
  return set;
}

Codepoints line_ends() {
  Codepoints set = Codepoints::one('\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set;
}

// The classes \d \w \s and their opposites; empty for any other letter.
Codepoints class_of(uint32_t letter) {
  switch (letter) {
    case 'd': return digits();
    case 'D': return digits().complement();
    case 'w': return word_characters();
    case 'W': return word_characters().complement();
    case 's': return spaces();
    case 'S': return spaces().complement();
    default: return {};
  }
}

class Reader {
 public:
  Reader(std::string_view text, bool search) : at_(text, "[regex]"), search_(search) {}

  Result<Regular> read() {
    const int end = out_.add_state();
    do {
      const int begin = out_.add_state();
      out_.skip(0, begin);
      const bool from_start = at_.take_if('^') || !search_;
      if (!from_start) out_.connect(begin, Codepoints::all(), begin);
      int last = out_.add_state();
      out_.skip(begin, last);
      SMELT_CHECK(sequence(last, 0));
      const bool to_end = at_.take_if('$') || !search_;
      if (!to_end) out_.connect(last, Codepoints::all(), last);
      out_.skip(last, end);
    } while (at_.take_if('|'));
    if (!at_.at_end()) return at_.error("this does not belong here; write \\ before a character that is meant as such");
    out_.ends = {end};
    return std::move(out_);
  }

 private:
  // Each reads something that begins in state `at`, and moves `at` to where it ends.
  Status alternatives(int& at, int depth) {
    if (depth > kDeepestGrammar) return at_.error("too many groups inside of each other");
    const int begin = at, end = out_.add_state();
    do {
      int last = out_.add_state();
      out_.skip(begin, last);
      SMELT_CHECK(sequence(last, depth));
      out_.skip(last, end);
    } while (at_.take_if('|'));
    at = end;
    return {};
  }

  Status sequence(int& at, int depth) {
    while (!at_.at_end() && at_.peek() != '|' && at_.peek() != ')' && !(depth == 0 && at_.peek() == '$')) {
      SMELT_CHECK(repeated(at, depth));
    }
    return {};
  }

  Status repeated(int& at, int depth) {
    const size_t begin = at_.position();
    const int first = out_.add_state();
    out_.skip(at, first);
    int last = first;
    SMELT_CHECK(atom(last, depth));
    const size_t behind_atom = at_.position();
    int least = 1, most = 1;
    SMELT_CHECK(quantifier(least, most));
    const size_t behind = at_.position();
    if (least == 1 && most == 1) {
      at = last;
      return {};
    }
    // The copy that is there already is the first, then as many as are missing.
    at_.back_to(behind_atom);
    const int end = out_.add_state();
    if (least == 0) out_.skip(first, end);
    if (most == 0) {
      at = out_.add_state();
      out_.skip(first, at);
      at_.back_to(behind);
      return {};
    }
    int from = first;
    for (int copy = 1; copy < std::max(least, most); ++copy) {
      if (copy >= least) out_.skip(last, end);
      at_.back_to(begin);
      from = out_.add_state();
      out_.skip(last, from);
      last = from;
      SMELT_CHECK(atom(last, depth));
    }
    if (most < 0) out_.skip(last, from);
    out_.skip(last, end);
    at = end;
    at_.back_to(behind);
    return {};
  }

  Status quantifier(int& least, int& most) {
    if (at_.take_if('*')) {
      least = 0, most = -1;
    } else if (at_.take_if('+')) {
      least = 1, most = -1;
    } else if (at_.take_if('?')) {
      least = 0;
    } else if (at_.take_if('{')) {
      least = most = at_.number();
      if (at_.take_if(',')) most = at_.number();
      if (least < 0 || !at_.take_if('}')) return at_.error("a repetition is {n}, {n,} or {n,m}");
      if (most >= 0 && most < least) return at_.error("a repetition of at least more than at most");
    } else {
      return {};
    }
    at_.take_if('?');  // how a match is searched for; the texts are the same
    if (at_.peek() == '+' || at_.peek() == '*' || at_.peek() == '{' || at_.peek() == '?')
      return at_.error("a repetition of a repetition; use a group (?: )");
    return {};
  }

  Status atom(int& at, int depth) {
    if (out_.states > kMostPositions)
      return at_.error("the expression needs more than " + std::to_string(kMostPositions) + " states");
    const uint32_t c = at_.take();
    if (c == '(') return group(at, depth);
    Codepoints set;
    if (c == '[') {
      SMELT_TRY(read, bracket());
      set = read;
    } else if (c == '.') {
      set = line_ends().complement();
    } else if (c == '\\') {
      SMELT_TRY(read, escape());
      set = read;
    } else if (c == '^' || c == '$') {
      return at_.error("^ and $ are known only at the ends of the expression");
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
      return at_.error("nothing stands before this repetition");
    } else {
      set = Codepoints::one(c);
    }
    const int to = out_.add_state();
    if (!set.empty()) out_.connect(at, set, to);  // a class of no character matches nothing
    at = to;
    return {};
  }

  Status group(int& at, int depth) {
    if (at_.take_if('?')) {
      if (at_.take_if('<') && at_.peek() != '=' && at_.peek() != '!') {
        while (!at_.at_end() && at_.take() != '>') {
        }
      } else if (!at_.take_if(':')) {
        return at_.error("look-around is not regular; say it without");
      }
    }
    SMELT_CHECK(alternatives(at, depth + 1));
    if (!at_.take_if(')')) return at_.error("a group without its )");
    return {};
  }

  Result<Codepoints> escape() {
    const uint32_t c = at_.take();
    if (Codepoints set = class_of(c); !set.empty()) return set;
    uint32_t value = c;
    switch (c) {
      case 'n': return Codepoints::one('\n');
      case 'r': return Codepoints::one('\r');
      case 't': return Codepoints::one('\t');
      case 'f': return Codepoints::one('\f');
      case 'v': return Codepoints::one('\v');
      case '0': return Codepoints::one(0);
      case 'x': value = at_.hexadecimal(2); break;
      case 'u': value = at_.hexadecimal(4); break;
      case Cursor::kEnd: return at_.error("a \\ at the end");
      default:
        if ((c >= '1' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))
          return at_.error("the escape \\" + std::string(1, static_cast<char>(c)) + " is not supported");
        return Codepoints::one(c);
    }
    if (value > kLastCodepoint || (value >= 0xD800 && value < 0xE000))
      return at_.error("an escape that stands for no character");
    return Codepoints::one(value);
  }

  Result<Codepoints> bracket() {
    const bool is_inverted = at_.take_if('^');
    Codepoints set;
    while (!at_.take_if(']')) {
      if (at_.at_end()) return at_.error("a class without its ]");
      SMELT_TRY(first, bracket_item());
      const size_t here = at_.position();
      if (at_.take_if('-') && at_.peek() != ']' && first.ranges().size() == 1) {
        SMELT_TRY(last, bracket_item());
        const uint32_t from = first.ranges()[0].first, to = last.empty() ? 0 : last.ranges()[0].last;
        if (to < from) return at_.error("a range of a class whose end is before its beginning");
        set.add(from, to);
      } else {
        at_.back_to(here);
        set.add(first);
      }
    }
    return is_inverted ? set.complement() : set;
  }

  Result<Codepoints> bracket_item() {
    const uint32_t c = at_.take();
    if (c == Cursor::kEnd) return at_.error("a class without its ]");
    if (c != '\\') return Codepoints::one(c);
    if (at_.take_if('b')) return Codepoints::one('\b');
    return escape();
  }

  Cursor at_;
  bool search_;
  Regular out_;
};

}  // namespace

Result<Regular> read_regex(std::string_view text, bool search) {
  if (text.size() > kLongestGrammar)
    return Error{"[regex] the expression has " + std::to_string(text.size()) + " bytes; at most " +
                 std::to_string(kLongestGrammar) + " are read"};
  return Reader(text, search).read();
}

}  // namespace smelt
