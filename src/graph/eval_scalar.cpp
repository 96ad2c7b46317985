#include "graph/eval.h"

namespace smelt {
namespace {

std::optional<Scalar> value_of(Ref node, const ScalarValues& known) {
  if (auto it = known.find(node); it != known.end()) return it->second;
  if (node->op == Op::Const) return scalar_of(node);
  std::vector<Scalar> values;
  for (Ref s : node->src) {
    auto it = known.find(s);
    if (it == known.end()) return std::nullopt;
    values.push_back(it->second);
  }
  return is_elementwise(node->op) ? apply_op(*node, values) : std::nullopt;
}

}  // namespace

std::optional<Scalar> eval_scalar(Ref expr, const ScalarValues& leaves) {
  ScalarValues known = leaves;
  for (Ref node : toposort(expr))
    if (auto value = value_of(node, known)) known[node] = *value;
  auto it = known.find(expr);
  return it == known.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace smelt
