#include "jinja/lexer.h"

#include <algorithm>
#include <optional>

#include "jinja/error.h"
#include "jinja/unicode.h"
#include "text/utf8.h"

namespace smelt::jinja {
namespace {

constexpr size_t kMostTokens = size_t{1} << 20;

// Longest first, as "//" begins like "/".
constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                         "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
// Letters beyond ASCII are taken as they come.
bool begins_name(char c) { return is_letter(c) || c == '_' || static_cast<uint8_t>(c) >= 0x80; }
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Every kind of line end becomes "\n", and one at the very end goes.
std::string with_plain_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// Python's escapes in a string literal; unknown ones stay as they are.
class Unescaper {
 public:
  Unescaper(std::string_view body, int line) : body_(body), line_(line) {}

  std::string run() {
    while (pos_ < body_.size()) {
      if (body_[pos_] != '\\' || pos_ + 1 == body_.size()) {
        out_ += body_[pos_++];
        continue;
      }
      const char c = body_[pos_ + 1];
      pos_ += 2;
      escape(c);
    }
    return std::move(out_);
  }

 private:
  void escape(char c) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"", kBytes = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t at = kNames.find(c); at != kNames.npos) {
      out_ += kBytes[at];
    } else if (c == 'x') {
      append_utf8(out_, hex(2));
    } else if (c == 'u') {
      append_utf8(out_, hex(4));
    } else if (c == 'U') {
      append_utf8(out_, hex(8));
    } else if (c >= '0' && c <= '7') {
      octal(c);
    } else if (c != '\n') {
      out_ += '\\';
      out_ += c;
    }
  }

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++pos_) {
      const int digit = pos_ < body_.size() ? hex_digit(body_[pos_]) : -1;
      if (digit < 0) throw TemplateError("a string has an escape with too few hexadecimal digits", line_);
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      throw TemplateError("a string has an escape that is no character", line_);
    }
    return value;
  }

  void octal(char first) {
    uint32_t value = static_cast<uint32_t>(first - '0');
    for (int i = 0; i < 2 && pos_ < body_.size() && body_[pos_] >= '0' && body_[pos_] <= '7'; ++i, ++pos_) {
      value = value * 8 + static_cast<uint32_t>(body_[pos_] - '0');
    }
    append_utf8(out_, value);
  }

  std::string_view body_;
  int line_;
  size_t pos_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) root();
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  // Data up to the next tag, and the tag.
  void root() {
    const size_t tag = find_tag(pos_);
    if (tag == source_.npos) {
      add_data(pos_, source_.size());
      pos_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    size_t inside = tag + 2;
    const char sign =
        inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+') ? source_[inside] : 0;
    if (sign) ++inside;
    add_data(pos_, end_of_data(pos_, tag, sign, kind != '{'));
    go_to(inside);
    if (kind == '#') return comment();
    if (kind == '%') {
      if (const auto end = raw_begin_end()) return raw(*end);
    }
    tag_body(kind == '{');
  }

  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != source_.npos; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : 0;
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.npos;
  }

  // Where the data before a tag ends, once white space before the tag is taken away.
  size_t end_of_data(size_t begin, size_t end, char sign, bool is_block) const {
    const std::string_view data = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') return begin + skip_spaces_back(data, data.size());
    if (sign == '+' || !is_block) return end;
    const size_t newline = data.rfind('\n');
    const size_t line = newline == data.npos ? 0 : newline + 1;
    if (line == 0 && !line_starts_) return end;
    const bool only_spaces = line < data.size() && skip_spaces(data, line) == data.size();
    return only_spaces ? begin + line : end;
  }

  void add_data(size_t begin, size_t end) {
    if (begin < end) add(Token::Kind::data, source_.substr(begin, end - begin));
  }

  void go_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + pos_, source_.begin() + end, '\n'));
    // Whether a tag that follows begins its line.
    if (end > pos_) line_starts_ = source_[end - 1] == '\n';
    pos_ = end;
  }

  // The position after `-%}` with white space, `+%}`, or `%}` and a newline; nothing if none of them is at `at`.
  std::optional<size_t> end_of_tag(size_t at, std::string_view close, bool trims_newline, bool may_be_plus) const {
    const std::string_view rest = std::string_view(source_).substr(at);
    if (rest.starts_with('-') && rest.substr(1).starts_with(close)) return skip_spaces(source_, at + 1 + close.size());
    if (may_be_plus && rest.starts_with('+') && rest.substr(1).starts_with(close)) return at + 1 + close.size();
    if (!rest.starts_with(close)) return std::nullopt;
    const size_t end = at + close.size();
    return trims_newline && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void comment() {
    const size_t close = source_.find("#}", pos_);
    if (close == source_.npos) throw TemplateError("a comment does not end", line_);
    const char before = close > pos_ ? source_[close - 1] : 0;
    const size_t at = before == '-' || before == '+' ? close - 1 : close;
    go_to(*end_of_tag(at, "#}", true, true));
  }

  std::optional<size_t> word_end(size_t at, std::string_view word) const {
    at = skip_spaces(source_, at);
    if (std::string_view(source_).substr(at).starts_with(word)) return skip_spaces(source_, at + word.size());
    return std::nullopt;
  }

  // After `{%`: where `raw %}` ends, if that follows.
  std::optional<size_t> raw_begin_end() const {
    const auto end = word_end(pos_, "raw");
    return end ? end_of_tag(*end, "%}", false, false) : std::nullopt;
  }

  void raw(size_t begin) {
    go_to(begin);
    for (size_t tag = source_.find("{%", begin); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      const char next = tag + 2 < source_.size() ? source_[tag + 2] : 0;
      const char sign = next == '-' || next == '+' ? next : 0;
      const auto word = word_end(tag + 2 + (sign ? 1 : 0), "endraw");
      const auto end = word ? end_of_tag(*word, "%}", true, true) : std::nullopt;
      if (!end) continue;
      add_data(begin, end_of_data(begin, tag, sign, true));
      return go_to(*end);
    }
    throw TemplateError("a raw block does not end", line_);
  }

  void tag_body(bool is_variable) {
    add(is_variable ? Token::Kind::variable_begin : Token::Kind::block_begin, "");
    const std::string_view close = is_variable ? "}}" : "%}";
    std::string open;  // brackets that wait for their other half
    while (true) {
      if (open.empty()) {
        if (const auto end = end_of_tag(pos_, close, !is_variable, !is_variable)) {
          add(is_variable ? Token::Kind::variable_end : Token::Kind::block_end, "");
          return go_to(*end);
        }
      }
      if (pos_ == source_.size()) throw TemplateError("a tag does not end", line_);
      one_token(open);
    }
  }

  void one_token(std::string& open) {
    const char c = source_[pos_];
    if (const size_t end = skip_spaces(source_, pos_); end > pos_) return go_to(end);
    if (is_digit(c)) return number();
    if (begins_name(c)) return name();
    if (c == '"' || c == '\'') return string(c);
    symbol(open);
  }

  void name() {
    size_t end = pos_;
    while (end < source_.size() && continues_name(source_[end])) ++end;
    add(Token::Kind::name, source_.substr(pos_, end - pos_));
    go_to(end);
  }

  void string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw TemplateError("a string does not end", line_);
    add(Token::Kind::string, Unescaper(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1), line_).run());
    go_to(end + 1);
  }

  // Digits with single "_" between them, from `at`.
  size_t digits_end(size_t at) const {
    while (at < source_.size() && (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                                             is_digit(source_[at + 1]) && is_digit(source_[at - 1])))) {
      ++at;
    }
    return at;
  }

  void number() {
    size_t end = digits_end(pos_);
    bool is_float = false;
    const auto digit_at = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    // "1.5", but "a.1.5" is the item 1 of a and the item 5 of that.
    const bool follows_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    if (!follows_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      end = digits_end(end + 1);
      is_float = true;
    }
    if (!follows_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (digit_at(end + 1 + sign)) {
        end = digits_end(end + 1 + sign);
        is_float = true;
      }
    }
    std::string digits = source_.substr(pos_, end - pos_);
    std::erase(digits, '_');
    const bool has_leading_zero = !is_float && digits.size() > 1 && digits[0] == '0';
    if (has_leading_zero && digits.find_first_not_of('0') != digits.npos) {
      throw TemplateError("the number " + digits + " begins with a zero", line_);
    }
    add(is_float ? Token::Kind::number : Token::Kind::integer, std::move(digits));
    go_to(end);
  }

  void symbol(std::string& open) {
    const std::string_view rest = std::string_view(source_).substr(pos_);
    const auto found =
        std::find_if(std::begin(kSymbols), std::end(kSymbols), [&](auto s) { return rest.starts_with(s); });
    if (found == std::end(kSymbols)) {
      throw TemplateError("unexpected character '" + std::string(rest.substr(0, 1)) + "'", line_);
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (!open.ends_with(c)) throw TemplateError(std::string("unexpected '") + c + "'", line_);
      open.pop_back();
    }
    add(Token::Kind::symbol, std::string(*found));
    go_to(pos_ + found->size());
  }

  void add(Token::Kind kind, std::string text) {
    if (tokens_.size() == kMostTokens) throw TemplateError("the template is too long", line_);
    tokens_.push_back({kind, std::move(text), line_});
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace smelt::jinja
