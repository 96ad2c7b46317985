#include "egraph/describe.h"

#include <set>

namespace smelt::egraph {
namespace {

const ENode& chosen(const EGraph& g, ClassId id, const Choice& choice) {
  const auto it = choice.find(g.find(id));
  return g.at(id).nodes[it == choice.end() ? 0 : it->second];
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (Ref d : shape) {
    const auto n = const_int(d);
    text += (text.empty() ? "" : ", ") + (n ? std::to_string(*n) : "?");
  }
  return "[" + text + "]";
}

class Describer {
 public:
  Describer(const EGraph& g, const Choice& choice) : g_(g), choice_(choice) {}

  void visit(ClassId id) {
    if (!seen_.insert(g_.find(id)).second) return;
    const ENode& node = chosen(g_, id, choice_);
    for (ClassId s : node.src) visit(s);
    if (g_.facts(id).is_constant) return;
    const bool is_copy = node.op == EOp::GatheredCopy;
    if (node.op != EOp::Contract && !is_copy) return;
    const std::string matrix = describe_weight(g_, node.src[is_copy ? 0 : 1], choice_);
    if (matrix == "...") return;
    lines.push_back(std::string(name_of(node.op)) + " " + text_of(node.shape) + " <- " + matrix);
  }

  std::vector<std::string> lines;

 private:
  const EGraph& g_;
  const Choice& choice_;
  std::set<ClassId> seen_;
};

}  // namespace

std::string describe_weight(const EGraph& g, ClassId w, const Choice& choice) {
  const ENode& node = chosen(g, w, choice);
  auto of = [&](size_t i) { return describe_weight(g, node.src[i], choice); };
  if (node.op == EOp::Weight) return node.arg.name;
  if (node.op == eop(Op::Gather) || node.op == EOp::GatheredCopy) {
    const std::string inner = of(0);
    return inner == "..." ? inner : "gather(" + inner + ")";
  }
  if (node.op == EOp::Concat) {
    std::string list;
    for (size_t i = 0; i < node.src.size(); ++i) list += (i ? ", " : "") + of(i);
    return "concat(" + list + ")";
  }
  if (!g.facts(w).is_constant) return "...";
  if (is_tensor_op(node.op) && is_move(tensor_op(node.op)))
    return node.op == eop(Op::Shrink) ? "slice(" + of(0) + ")" : of(0);
  return node.op == EOp::Contract ? "fold(" + of(0) + ", " + of(1) + ")" : "...";
}

std::vector<std::string> describe(const EGraph& g, ClassId root, const Choice& choice) {
  Describer describer(g, choice);
  describer.visit(root);
  return std::move(describer.lines);
}

}  // namespace smelt::egraph
