// Expressions, from tokens to a tree: precedence climbing over the operators of Jinja.
//
//   a or b, a and b, not a, comparisons, + -, ~, * / // %, **, -a, a|f, a is t, a.b, a[b], a(b)      loosest first
#pragma once

#include "jinja/syntax.h"
#include "jinja/token_stream.h"

namespace smelt::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(&tokens) {}

  ExpressionPtr expression();
  // Expressions with commas between them are a tuple. Without `may_be_conditional`, `if` ends it.
  ExpressionPtr tuple(bool may_be_conditional = true);
  ExpressionPtr filter(ExpressionPtr subject);  // at the name of one
  ExpressionPtr make(int line, Expression::Node node);
  ImplicitNames mentions;  // in what was parsed since its owner cleared it

 private:
  ExpressionPtr tuple_of(bool may_be_conditional, bool has_parentheses);
  ExpressionPtr operators(int least_level);
  ExpressionPtr one_operator(ExpressionPtr left, int level);
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr adjacent_strings();
  ExpressionPtr number();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr object);
  ExpressionPtr filters_and_tests(ExpressionPtr subject);
  ExpressionPtr test(ExpressionPtr subject);
  std::string dotted_name(const char* what);
  ExpressionPtr member(ExpressionPtr object);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr slice(ExpressionPtr object, ExpressionPtr start, int line);
  bool ends_slice_part() const;
  CallArguments arguments();
  void one_argument(CallArguments& arguments);
  bool ends_tuple() const;
  int operator_level() const;

  TokenStream* tokens_;
  int depth_ = 0;
};

}  // namespace smelt::jinja
