#include "graph/verify.h"

#include <algorithm>
#include <unordered_map>

#include "graph/text.h"
#include "graph/verify_parts.h"

namespace smelt {
namespace {

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::Tensor: return "tensor";
    case Stage::Kernel: return "kernel";
    case Stage::Expanded: return "expanded";
  }
  return "";
}

Error error_at(Stage stage, Ref node, const std::string& problem) {
  std::string what = std::string(name_of(node->op)) + " " + std::string(name_of(node->dtype));
  std::string expr = is_elementwise(node->op) ? " in " + to_infix(node).substr(0, 120) : "";
  return Error{"[verify] " + std::string(name_of(stage)) + ": " + what + expr + ": " + problem};
}

std::string node_problem(Ref node, Stage stage) {
  if (std::string problem = typing_problem(node); !problem.empty()) return problem;
  return stage == Stage::Tensor ? tensor_problem(node) : kernel_problem(node, stage);
}

// The ranges that a node depends on and that no loop below it has bound, sorted by address.
using FreeRanges = std::vector<const Node*>;

Ref outermost(const FreeRanges& ranges) {
  auto less = [](const Node* a, const Node* b) {
    return a->arg.i != b->arg.i ? a->arg.i < b->arg.i : a->key < b->key;
  };
  return Ref(*std::min_element(ranges.begin(), ranges.end(), less));
}

void join(FreeRanges& all, const FreeRanges& more) {
  FreeRanges both;
  std::set_union(all.begin(), all.end(), more.begin(), more.end(), std::back_inserter(both));
  all = std::move(both);
}

// Where the ranges that the node itself loops over begin among its sources; past the end if it has
// none.
size_t first_bound(Ref node) {
  if (node->op == Op::Store) return 3;
  if (node->op == Op::LaneReduce) return 1;
  if (!is_reduce(node->op)) return node->src.size();
  size_t k = 0;
  while (k < node->src.size() && node->src[k]->op != Op::Range) ++k;
  return k;
}

class Scopes {
 public:
  // Visits nodes in the order of toposort(); the free ranges of a store are ranges outside of any
  // loop.
  const FreeRanges& visit(Ref node) {
    FreeRanges free;
    size_t bound = first_bound(node);
    for (size_t k = 0; k < bound; ++k) join(free, free_.at(node->src[k].get()));
    // Loops from the inside out: each binds its range, and its size is seen by the loops around it.
    for (size_t k = node->src.size(); k-- > bound;) {
      const Node* range = node->src[k].get();
      std::erase(free, range);
      FreeRanges size = free_.at(range);
      std::erase(size, range);
      join(free, size);
    }
    if (node->op == Op::Range) join(free, {node.get()});
    return free_[node.get()] = std::move(free);
  }

 private:
  std::unordered_map<const Node*, FreeRanges> free_;
};

}  // namespace

Status verify(Ref root, Stage stage) {
  Refs order = toposort(root);
  for (Ref node : order)
    if (std::string problem = node_problem(node, stage); !problem.empty())
      return error_at(stage, node, problem);
  if (root->op != Op::Sink) return error_at(stage, root, "the root is not a sink");
  if (stage == Stage::Tensor) return {};
  Scopes scopes;
  for (Ref node : order) {
    const FreeRanges& free = scopes.visit(node);
    if (node->op == Op::Store && !free.empty())
      return error_at(stage, node, "it uses " + to_infix(outermost(free)) + " outside of its loop");
  }
  return {};
}

}  // namespace smelt
