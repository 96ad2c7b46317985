#include "jinja/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "jinja/parser.h"
#include "jinja/syntax_height.h"

namespace smelt::jinja {
namespace {

using Kind = Token::Kind;

// Levels of precedence, loosest first.
enum Level { kOr, kAnd, kNot, kCompare, kAdd, kConcatenate, kMultiply, kPower, kNoOperator = -1 };

struct Depth {
  explicit Depth(int& depth, const TokenStream& tokens) : depth_(depth) {
    if (++depth_ > kMaxSyntaxDepth) {
      --depth_;
      tokens.fail("expressions are nested deeper than " + std::to_string(kMaxSyntaxDepth) + " levels");
    }
  }
  ~Depth() { --depth_; }
  int& depth_;
};

std::optional<CompareOp> compare_op(const Token& token) {
  if (token.kind == Kind::name) return token.text == "in" ? std::optional(CompareOp::in) : std::nullopt;
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::equal},      {"!=", CompareOp::not_equal}, {"<", CompareOp::less},
      {"<=", CompareOp::less_equal}, {">", CompareOp::greater},    {">=", CompareOp::greater_equal}};
  const auto found =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& op) { return op.first == token.text; });
  return found == std::end(kOps) ? std::nullopt : std::optional(found->second);
}

BinaryOp binary_op(std::string_view symbol) {
  if (symbol == "+") return BinaryOp::add;
  if (symbol == "-") return BinaryOp::subtract;
  if (symbol == "*") return BinaryOp::multiply;
  if (symbol == "/") return BinaryOp::divide;
  if (symbol == "//") return BinaryOp::floor_divide;
  return symbol == "%" ? BinaryOp::modulo : BinaryOp::power;
}

}  // namespace

ExpressionPtr ExpressionParser::make(int line, Expression::Node node) {
  const int height = height_of_children(node) + 1;
  if (height > kMaxSyntaxDepth) {
    throw TemplateError("expressions are nested deeper than " + std::to_string(kMaxSyntaxDepth) + " levels", line);
  }
  return std::make_unique<Expression>(Expression{std::move(node), line, height});
}

ExpressionPtr ExpressionParser::expression() {
  const Depth depth(depth_, *tokens_);
  const int line = tokens_->line();
  ExpressionPtr value = operators(kOr);
  while (tokens_->skip_name("if")) {
    ExpressionPtr test = operators(kOr);
    ExpressionPtr otherwise = tokens_->skip_name("else") ? expression() : nullptr;
    value = make(line, Conditional{std::move(value), std::move(test), std::move(otherwise)});
  }
  return value;
}

bool ExpressionParser::ends_tuple() const {
  return tokens_->at(Kind::variable_end) || tokens_->at(Kind::block_end) || tokens_->at_symbol(")") ||
         tokens_->at_name("recursive");
}

ExpressionPtr ExpressionParser::tuple(bool may_be_conditional) { return tuple_of(may_be_conditional, false); }

ExpressionPtr ExpressionParser::tuple_of(bool may_be_conditional, bool has_parentheses) {
  const int line = tokens_->line();
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!ends_tuple()) {
    items.push_back(may_be_conditional ? expression() : operators(kOr));
    if (!tokens_->skip_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !has_parentheses) tokens_->fail("expected an expression");
  return make(line, ListDisplay{std::move(items), true});
}

int ExpressionParser::operator_level() const {
  const Token& token = tokens_->now();
  if (token.kind == Kind::name) {
    if (token.text == "or") return kOr;
    if (token.text == "and") return kAnd;
    if (token.text == "in" || (token.text == "not" && tokens_->name_follows("in"))) return kCompare;
    return kNoOperator;
  }
  if (token.kind != Kind::symbol) return kNoOperator;
  if (compare_op(token)) return kCompare;
  if (token.text == "+" || token.text == "-") return kAdd;
  if (token.text == "~") return kConcatenate;
  if (token.text == "**") return kPower;
  const bool multiplies = token.text == "*" || token.text == "/" || token.text == "//" || token.text == "%";
  return multiplies ? kMultiply : kNoOperator;
}

// Operators of one level become one node, however many there are.
ExpressionPtr ExpressionParser::operators(int least_level) {
  const Depth depth(depth_, *tokens_);
  ExpressionPtr left;
  if (least_level <= kNot && tokens_->at_name("not")) {
    const int line = tokens_->take().line;
    left = make(line, Unary{UnaryOp::invert, operators(kNot)});
  } else {
    left = unary(true);
  }
  for (int level = operator_level(); level >= least_level; level = operator_level()) {
    left = one_operator(std::move(left), level);
  }
  return left;
}

// All operators of this level that follow, with their right sides.
ExpressionPtr ExpressionParser::one_operator(ExpressionPtr left, int level) {
  const int line = tokens_->line();
  const auto more = [&] { return operator_level() == level; };
  if (level == kOr || level == kAnd) {
    Logical node{level == kAnd, {}};
    node.operands.push_back(std::move(left));
    while (more()) tokens_->take(), node.operands.push_back(operators(level + 1));
    return make(line, std::move(node));
  }
  if (level == kConcatenate) {
    Concatenation node;
    node.parts.push_back(std::move(left));
    while (more()) tokens_->take(), node.parts.push_back(operators(level + 1));
    return make(line, std::move(node));
  }
  if (level == kCompare) {
    Comparison node{std::move(left), {}};
    while (more()) {
      const bool is_negated = tokens_->skip_name("not");
      const CompareOp op = *compare_op(tokens_->take());
      node.rest.emplace_back(is_negated ? CompareOp::not_in : op, operators(level + 1));
    }
    return make(line, std::move(node));
  }
  Chain node{std::move(left), {}};
  while (more()) {
    const BinaryOp op = binary_op(tokens_->take().text);
    node.rest.emplace_back(op, operators(level + 1));
  }
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Depth depth(depth_, *tokens_);
  const int line = tokens_->line();
  ExpressionPtr value;
  if (tokens_->at_symbol("-") || tokens_->at_symbol("+")) {
    const UnaryOp op = tokens_->take().text == "-" ? UnaryOp::negate : UnaryOp::plus;
    value = make(line, Unary{op, unary(false)});
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  switch (tokens_->now().kind) {
    case Kind::name: return name_or_constant();
    case Kind::string: return adjacent_strings();
    case Kind::integer:
    case Kind::number: return number();
    default: break;
  }
  if (tokens_->at_symbol("[")) return list();
  if (tokens_->at_symbol("{")) return dict();
  if (!tokens_->skip_symbol("(")) tokens_->fail("expected an expression");
  ExpressionPtr value = tuple_of(true, true);
  tokens_->expect_symbol(")");
  return value;
}

ExpressionPtr ExpressionParser::name_or_constant() {
  Token token = tokens_->take();
  const auto is = [&](const char* a, const char* b) { return token.text == a || token.text == b; };
  if (is("true", "True")) return make(token.line, Literal{true});
  if (is("false", "False")) return make(token.line, Literal{false});
  if (is("none", "None")) return make(token.line, Literal{Value()});
  mentions.caller |= token.text == "caller";
  mentions.varargs |= token.text == "varargs";
  mentions.kwargs |= token.text == "kwargs";
  return make(token.line, Name{std::move(token.text)});
}

ExpressionPtr ExpressionParser::adjacent_strings() {
  const int line = tokens_->line();
  std::string text;
  while (tokens_->at(Kind::string)) text += tokens_->take().text;
  return make(line, Literal{std::move(text)});
}

ExpressionPtr ExpressionParser::number() {
  const Token token = tokens_->take();
  if (token.kind == Kind::number) return make(token.line, Literal{std::strtod(token.text.c_str(), nullptr)});
  int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  if (std::from_chars(token.text.data(), end, value).ptr != end || token.text.size() > 18) {
    throw TemplateError("the number " + token.text.substr(0, 40) + " is too large", token.line);
  }
  return make(token.line, Literal{value});
}

ExpressionPtr ExpressionParser::list() {
  const int line = tokens_->take().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_->skip_symbol("]")) {
    if (!items.empty()) {
      tokens_->expect_symbol(",");
      if (tokens_->skip_symbol("]")) break;
    }
    items.push_back(expression());
  }
  return make(line, ListDisplay{std::move(items), false});
}

ExpressionPtr ExpressionParser::dict() {
  const int line = tokens_->take().line;
  DictDisplay dict;
  while (!tokens_->skip_symbol("}")) {
    if (!dict.entries.empty()) {
      tokens_->expect_symbol(",");
      if (tokens_->skip_symbol("}")) break;
    }
    ExpressionPtr key = expression();
    tokens_->expect_symbol(":");
    dict.entries.emplace_back(std::move(key), expression());
  }
  return make(line, std::move(dict));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr object) {
  while (true) {
    const int line = tokens_->line();
    if (tokens_->skip_symbol(".")) {
      object = member(std::move(object));
    } else if (tokens_->skip_symbol("[")) {
      object = subscript(std::move(object));
    } else if (tokens_->at_symbol("(")) {
      CallArguments given = arguments();
      object = make(line, Call{std::move(object), std::move(given)});
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::member(ExpressionPtr object) {
  const int line = tokens_->line();
  if (!tokens_->at(Kind::integer)) {
    std::string name = tokens_->expect(Kind::name, "a name after '.'").text;
    return make(line, Attribute{std::move(object), std::move(name)});
  }
  ExpressionPtr index = number();
  return make(line, Subscript{std::move(object), std::move(index)});
}

// After "[": an index, none or several (a tuple), or a slice.
ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const int line = tokens_->line();
  if (tokens_->skip_symbol("]")) return make(line, Subscript{std::move(object), make(line, ListDisplay{{}, true})});
  if (tokens_->at_symbol(":")) return slice(std::move(object), nullptr, line);
  ExpressionPtr index = expression();
  if (tokens_->at_symbol(":")) return slice(std::move(object), std::move(index), line);
  if (tokens_->at_symbol(",")) {
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(index));
    while (tokens_->skip_symbol(",")) items.push_back(expression());
    index = make(line, ListDisplay{std::move(items), true});
  }
  tokens_->expect_symbol("]");
  return make(line, Subscript{std::move(object), std::move(index)});
}

bool ExpressionParser::ends_slice_part() const { return tokens_->at_symbol(":") || tokens_->at_symbol("]"); }

ExpressionPtr ExpressionParser::slice(ExpressionPtr object, ExpressionPtr start, int line) {
  Slice node{std::move(object), std::move(start), nullptr, nullptr};
  tokens_->expect_symbol(":");
  if (!ends_slice_part()) node.stop = expression();
  if (tokens_->skip_symbol(":") && !ends_slice_part()) node.step = expression();
  tokens_->expect_symbol("]");
  return make(line, std::move(node));
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr subject) {
  while (true) {
    const int line = tokens_->line();
    if (tokens_->skip_symbol("|")) {
      subject = filter(std::move(subject));
    } else if (tokens_->skip_name("is")) {
      subject = test(std::move(subject));
    } else if (tokens_->at_symbol("(")) {
      CallArguments given = arguments();
      subject = make(line, Call{std::move(subject), std::move(given)});
    } else {
      return subject;
    }
  }
}

std::string ExpressionParser::dotted_name(const char* what) {
  std::string name = tokens_->expect(Kind::name, what).text;
  while (tokens_->skip_symbol(".")) name += "." + tokens_->expect(Kind::name, what).text;
  return name;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr subject) {
  const int line = tokens_->line();
  std::string name = dotted_name("the name of a filter");
  CallArguments given = tokens_->at_symbol("(") ? arguments() : CallArguments{};
  return make(line, Filter{std::move(subject), std::move(name), std::move(given)});
}

// After "is": the argument of a test needs no parentheses, as in `is divisibleby 3`.
ExpressionPtr ExpressionParser::test(ExpressionPtr subject) {
  const int line = tokens_->line();
  const bool is_negated = tokens_->skip_name("not");
  std::string name = dotted_name("the name of a test");
  CallArguments given;
  const bool ends = tokens_->at_name("else") || tokens_->at_name("or") || tokens_->at_name("and");
  const bool begins_argument = tokens_->at(Kind::name) || tokens_->at(Kind::string) || tokens_->at(Kind::integer) ||
                               tokens_->at(Kind::number) || tokens_->at_symbol("[") || tokens_->at_symbol("{");
  if (tokens_->at_symbol("(")) {
    given = arguments();
  } else if (begins_argument && !ends) {
    if (tokens_->at_name("is")) tokens_->fail("tests cannot be chained with 'is'");
    given.positional.push_back(postfix(primary()));
  }
  ExpressionPtr value = make(line, Test{std::move(subject), std::move(name), std::move(given)});
  return is_negated ? make(line, Unary{UnaryOp::invert, std::move(value)}) : std::move(value);
}

CallArguments ExpressionParser::arguments() {
  CallArguments given;
  tokens_->expect_symbol("(");
  bool is_first = true;
  while (!tokens_->skip_symbol(")")) {
    if (!is_first) {
      tokens_->expect_symbol(",");
      if (tokens_->skip_symbol(")")) break;
    }
    is_first = false;
    one_argument(given);
  }
  return given;
}

void ExpressionParser::one_argument(CallArguments& given) {
  const auto ensure = [&](bool holds) {
    if (!holds) tokens_->fail("these arguments of a call are in the wrong order");
  };
  if (tokens_->skip_symbol("*")) {
    ensure(!given.more_positional && !given.more_named);
    given.more_positional = expression();
  } else if (tokens_->skip_symbol("**")) {
    ensure(!given.more_named);
    given.more_named = expression();
  } else if (tokens_->at(Kind::name) && tokens_->symbol_follows("=")) {
    ensure(!given.more_named);
    std::string name = tokens_->take().text;
    tokens_->take();
    given.named.emplace_back(std::move(name), expression());
  } else {
    ensure(!given.more_positional && !given.more_named && given.named.empty());
    given.positional.push_back(expression());
  }
}

}  // namespace smelt::jinja
