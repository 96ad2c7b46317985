// The syntax tree of a template: statements that hold expressions. Built by parser.h, walked by interpreter.h, never
// changed in between.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/value.h"

namespace smelt::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Body = std::vector<Statement>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *args, **kwargs; may be null
};

// --- expressions
struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {  // [a, b] or (a, b)
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Conditional {                    // a if b else c
  ExpressionPtr then, test, otherwise;  // `otherwise` may be null
};
enum class UnaryOp { negate, plus, invert };
struct Unary {
  UnaryOp op;  // invert: not
  ExpressionPtr operand;
};
enum class BinaryOp { add, subtract, multiply, divide, floor_divide, modulo, power };
struct Chain {  // a + b - c, from left to right: one node, so that long ones are not deep
  ExpressionPtr first;
  std::vector<std::pair<BinaryOp, ExpressionPtr>> rest;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
struct Logical {  // a and b and c
  bool is_and;
  std::vector<ExpressionPtr> operands;
};
enum class CompareOp { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
struct Comparison {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Subscript {  // object[index]
  ExpressionPtr object, index;
};
struct Slice {  // object[start:stop:step]; each may be null
  ExpressionPtr object, start, stop, step;
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExpressionPtr subject;  // null in a filter block
  std::string name;
  CallArguments arguments;
};
struct Test {
  ExpressionPtr subject;
  std::string name;
  CallArguments arguments;
};

struct Expression {
  using Node = std::variant<Literal, Name, ListDisplay, DictDisplay, Conditional, Unary, Chain, Concatenation, Logical,
                            Comparison, Attribute, Subscript, Slice, Call, Filter, Test>;
  Node node;
  int line = 0;
  int height = 1;  // expressions inside each other, this one included
};

// --- statements
// What a value is assigned to: a name, an attribute of a namespace, or several of them for a sequence.
struct Target {
  std::string name;
  std::string attribute;      // "x" of ns.x; empty otherwise
  std::vector<Target> parts;  // a, b; then there is no name
};

struct Data {
  Value text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, filter;  // `filter` may be null
  bool is_recursive = false;
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {  // {% set x | filter %}...{% endset %}
  Target target;
  std::vector<ExpressionPtr> filters;
  Body body;
};
struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // may be null
};
// Which of the names that a macro has without declaring them its body mentions.
struct ImplicitNames {
  bool caller = false, varargs = false, kwargs = false;
};
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  ImplicitNames mentions;
};
struct CallBlock {  // {% call(x) macro() %}...{% endcall %}
  MacroDefinition caller;
  ExpressionPtr call;
};
struct FilterBlock {
  std::vector<ExpressionPtr> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Body body;
};
struct Scoped {  // {% generation %}: its body, with variables of its own
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Data, Print, If, For, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock, With, Scoped,
                            Break, Continue>;
  Node node;
  int line = 0;
};

}  // namespace smelt::jinja
