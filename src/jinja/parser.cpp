#include "jinja/parser.h"

#include <algorithm>

#include "jinja/expression_parser.h"

namespace smelt::jinja {
namespace {

using Kind = Token::Kind;
using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Body run() {
    Body body = parse_body({});
    if (!tokens_.at(Kind::end)) tokens_.fail("unexpected tag");
    return body;
  }

 private:
  // Statements up to a tag that begins with one of these names; the parser stands at that name then. Without names: to
  // the end of the template.
  Body parse_body(Names ends) {
    if (++depth_ > kMaxSyntaxDepth) {
      throw TemplateError("blocks are nested deeper than " + std::to_string(kMaxSyntaxDepth) + " levels",
                          tokens_.line());
    }
    Body body;
    while (!tokens_.at(Kind::end)) {
      const int line = tokens_.line();
      if (tokens_.at(Kind::data)) {
        body.push_back({Data{Value(tokens_.take().text)}, line});
      } else if (tokens_.at(Kind::variable_begin)) {
        tokens_.take();
        body.push_back({Print{expressions_.tuple()}, line});
        tokens_.expect(Kind::variable_end, "the end of the expression");
      } else {
        tokens_.take();
        if (at_any(ends)) break;
        body.push_back(parse_statement());
        tokens_.expect(Kind::block_end, "the end of the tag");
      }
    }
    if (ends.size() > 0 && tokens_.at(Kind::end)) tokens_.fail("missing {% " + std::string(*(ends.end() - 1)) + " %}");
    --depth_;
    return body;
  }

  // The body of a tag, from the end of the tag; takes the name of the tag that ends it.
  Body block(Names ends) {
    tokens_.expect(Kind::block_end, "the end of the tag");
    return parse_body(ends);
  }
  Body block_to(std::string_view end) {
    Body body = block({end});
    tokens_.take();
    return body;
  }

  bool at_any(Names names) const {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return tokens_.at_name(name); });
  }

  Statement parse_statement() {
    const int line = tokens_.line();
    const std::string tag = tokens_.expect(Kind::name, "the name of a tag").text;
    if (tag == "if") return {parse_if(), line};
    if (tag == "for") return {parse_for(), line};
    if (tag == "set") return parse_set(line);
    if (tag == "macro") return {parse_macro(), line};
    if (tag == "call") return {parse_call_block(), line};
    if (tag == "filter") return {parse_filter_block(), line};
    if (tag == "with") return {parse_with(), line};
    if (tag == "generation") return {Scoped{block_to("endgeneration")}, line};
    if (tag == "print") return {Print{expressions_.tuple()}, line};
    if (tag == "break") return {loop_control<Break>(), line};
    if (tag == "continue") return {loop_control<Continue>(), line};
    throw TemplateError("the tag '" + tag + "' is unknown, or not one of chat templates", line);
  }

  template <class Control>
  Control loop_control() {
    if (loops_ == 0) tokens_.fail("break and continue belong into a loop");
    return {};
  }

  If parse_if() {
    If statement;
    while (true) {
      ExpressionPtr test = expressions_.tuple(false);
      statement.branches.emplace_back(std::move(test), block({"elif", "else", "endif"}));
      const std::string end = tokens_.take().text;
      if (end == "endif") return statement;
      if (end == "else") break;
    }
    statement.otherwise = block_to("endif");
    return statement;
  }

  For parse_for() {
    For loop;
    loop.target = targets();
    tokens_.expect_name("in");
    loop.iterable = expressions_.tuple(false);
    if (tokens_.skip_name("if")) loop.filter = expressions_.expression();
    loop.is_recursive = tokens_.skip_name("recursive");
    ++loops_;
    loop.body = block({"endfor", "else"});
    --loops_;
    if (tokens_.take().text == "else") loop.otherwise = block_to("endfor");
    return loop;
  }

  Statement parse_set(int line) {
    const bool is_attribute = tokens_.symbol_follows(".");
    Target target = is_attribute ? namespace_target() : targets();
    if (tokens_.skip_symbol("=")) return {Set{std::move(target), expressions_.tuple()}, line};
    SetBlock statement{std::move(target), filters(false), {}};
    statement.body = scope_to("endset");
    return {std::move(statement), line};
  }

  // A body where break and continue do not reach the loop around it.
  Body scope_to(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Body body = block_to(end);
    loops_ = loops;
    return body;
  }

  Target namespace_target() {
    Target target{tokens_.expect(Kind::name, "a name").text, "", {}};
    tokens_.expect_symbol(".");
    target.attribute = tokens_.expect(Kind::name, "a name after '.'").text;
    return target;
  }

  // a   a, b   (a, b), c
  Target targets() {
    Target first = one_target();
    if (!tokens_.at_symbol(",")) return first;
    Target all;
    all.parts.push_back(std::move(first));
    while (tokens_.skip_symbol(",")) {
      if (!tokens_.at(Kind::name) && !tokens_.at_symbol("(")) break;
      if (tokens_.at_name("in")) break;
      all.parts.push_back(one_target());
    }
    return all;
  }

  Target one_target() {
    if (tokens_.skip_symbol("(")) {
      if (++depth_ > kMaxSyntaxDepth) tokens_.fail("targets are nested too deep");
      Target inner = targets();
      --depth_;
      tokens_.expect_symbol(")");
      return inner;
    }
    std::string name = tokens_.expect(Kind::name, "a name").text;
    for (std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) throw TemplateError("cannot assign to '" + name + "'", tokens_.line());
    }
    return {std::move(name), "", {}};
  }

  // "| a | b(1)"; the first one without its bar in a filter block.
  std::vector<ExpressionPtr> filters(bool first_is_bare) {
    std::vector<ExpressionPtr> list;
    if (first_is_bare) list.push_back(expressions_.filter(nullptr));
    while (tokens_.skip_symbol("|")) list.push_back(expressions_.filter(nullptr));
    return list;
  }

  std::vector<Parameter> signature() {
    std::vector<Parameter> parameters;
    tokens_.expect_symbol("(");
    while (!tokens_.skip_symbol(")")) {
      if (!parameters.empty()) tokens_.expect_symbol(",");
      Parameter parameter{tokens_.expect(Kind::name, "the name of a parameter").text, nullptr};
      if (tokens_.skip_symbol("=")) {
        parameter.fallback = expressions_.expression();
      } else if (!parameters.empty() && parameters.back().fallback) {
        tokens_.fail("a parameter without default follows one with a default");
      }
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  MacroDefinition parse_macro() {
    MacroDefinition macro;
    macro.name = tokens_.expect(Kind::name, "the name of the macro").text;
    macro.parameters = signature();
    macro_body(macro, "endmacro");
    return macro;
  }

  void macro_body(MacroDefinition& macro, std::string_view end) {
    const ImplicitNames around = std::exchange(expressions_.mentions, {});
    macro.body = scope_to(end);
    macro.mentions = expressions_.mentions;
    expressions_.mentions = {around.caller || macro.mentions.caller, around.varargs || macro.mentions.varargs,
                             around.kwargs || macro.mentions.kwargs};
  }

  CallBlock parse_call_block() {
    CallBlock statement;
    statement.caller.name = "caller";
    if (tokens_.at_symbol("(")) statement.caller.parameters = signature();
    statement.call = expressions_.expression();
    if (!std::holds_alternative<Call>(statement.call->node)) tokens_.fail("expected a call");
    macro_body(statement.caller, "endcall");
    return statement;
  }

  FilterBlock parse_filter_block() {
    FilterBlock statement{filters(true), {}};
    statement.body = scope_to("endfilter");
    return statement;
  }

  With parse_with() {
    With statement;
    while (!tokens_.at(Kind::block_end)) {
      if (!statement.bindings.empty()) tokens_.expect_symbol(",");
      Target target = one_target();
      tokens_.expect_symbol("=");
      statement.bindings.emplace_back(std::move(target), expressions_.expression());
    }
    statement.body = block_to("endwith");
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // around this place
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace smelt::jinja
