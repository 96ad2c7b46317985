// The tokens of a template, read one after the other.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/error.h"
#include "jinja/lexer.h"

namespace smelt::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[pos_]; }
  const Token& after() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  int line() const { return now().line; }
  Token take() {
    Token token = std::move(tokens_[pos_]);
    tokens_[pos_].line = token.line;
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }

  bool at(Token::Kind kind) const { return now().kind == kind; }
  bool at_name(std::string_view name) const { return is(now(), Token::Kind::name, name); }
  bool at_symbol(std::string_view symbol) const { return is(now(), Token::Kind::symbol, symbol); }
  bool symbol_follows(std::string_view symbol) const { return is(after(), Token::Kind::symbol, symbol); }
  bool name_follows(std::string_view name) const { return is(after(), Token::Kind::name, name); }

  bool skip_name(std::string_view name) { return at_name(name) && (take(), true); }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (take(), true); }
  Token expect(Token::Kind kind, const char* what) {
    if (!at(kind)) fail(std::string("expected ") + what);
    return take();
  }
  void expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) fail("expected '" + std::string(symbol) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail("expected '" + std::string(name) + "'");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw TemplateError(what + (now().text.empty() ? "" : ", not '" + now().text + "'"), line());
  }

 private:
  static bool is(const Token& token, Token::Kind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace smelt::jinja
