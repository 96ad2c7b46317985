#include <cstdio>

#include "graph/operands.h"
#include "graph/text.h"

namespace smelt {
namespace {

std::string_view symbol_of(Op op) {
  switch (op) {
    case Op::Add: return " + ";
    case Op::Sub: return " - ";
    case Op::Mul: return "*";
    case Op::Div: return "/";
    case Op::Mod: return "%";
    case Op::And: return " & ";
    case Op::Or: return " | ";
    case Op::Xor: return " ^ ";
    case Op::Shl: return " << ";
    case Op::Shr: return " >> ";
    case Op::Lt: return " < ";
    case Op::Eq: return " == ";
    default: return "";
  }
}

// How tightly an op binds; calls and leaves bind most.
int precedence(Op op) {
  switch (op) {
    case Op::Mul:
    case Op::Div:
    case Op::Mod: return 4;
    case Op::Add:
    case Op::Sub: return 3;
    case Op::Lt:
    case Op::Eq: return 1;
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Shl:
    case Op::Shr: return 2;
    default: return 5;
  }
}

std::string number(Ref node) {
  if (!is_float(node->dtype)) return std::to_string(node->arg.i);
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", node->arg.f);
  return text;
}

std::string infix(Ref node, int depth);

// A source, in parentheses where the reader would otherwise group it wrongly.
std::string operand(Ref node, Op outer, bool right, int depth) {
  std::string text = infix(node, depth);
  int inner = precedence(node->op);
  bool bits = precedence(outer) == 2 && inner < 5 && inner != 4;  // nobody remembers how these bind
  bool plain = !bits && (inner > precedence(outer) || (inner == precedence(outer) && !right));
  return plain ? text : "(" + text + ")";
}

std::string call(Ref node, int depth) {
  std::string text(name_of(node->op));
  if (node->op == Op::Cast || node->op == Op::Bitcast) text = name_of(node->dtype);
  text += "(";
  for (size_t i = 0; i < node->src.size(); ++i) text += (i ? ", " : "") + infix(node->src[i], depth);
  return text + ")";
}

std::string infix(Ref node, int depth) {
  if (depth == 0) return "...";
  switch (node->op) {
    case Op::Const: return number(node);
    case Op::Var: return node->arg.name;
    case Op::Range: return "r" + std::to_string(node->arg.i);
    case Op::Param:
    case Op::Temp:
    case Op::Local: return std::string(name_of(node->op)) + std::to_string(node->arg.i);
    default: break;
  }
  std::string_view symbol = symbol_of(node->op);
  if (symbol.empty()) return call(node, depth - 1);
  const auto [x, y] = BinaryView(node);
  auto right = const_int(y);
  if (node->op == Op::Add && right && *right < 0 && *right != INT64_MIN)
    return operand(x, Op::Sub, false, depth - 1) + " - " + std::to_string(-*right);
  return operand(x, node->op, false, depth - 1) + std::string(symbol) + operand(y, node->op, true, depth - 1);
}

}  // namespace

std::string to_infix(Ref expr) { return infix(expr, 24); }

}  // namespace smelt
