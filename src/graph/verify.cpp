#include "graph/verify.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/on_chip.h"
#include "graph/text.h"
#include "graph/verify_parts.h"
#include "graph/views.h"

namespace smelt {
namespace {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::Tensor: return "tensor";
    case Phase::Kernel: return "kernel";
    case Phase::Expanded: return "expanded";
  }
  return "";
}

VerifyFault fault_at(Phase phase, Ref node, const std::string& problem) {
  std::string what = std::string(name_of(node->op)) + " " + std::string(name_of(node->dtype));
  std::string expr = is_elementwise(node->op) ? " in " + to_infix(node).substr(0, 120) : "";
  return {node, "[verify] " + std::string(name_of(phase)) + ": " + what + expr + ": " + problem};
}

std::string node_problem(Ref node, Phase phase) {
  if (std::string problem = typing_problem(node); !problem.empty()) return problem;
  return phase == Phase::Tensor ? tensor_problem(node) : kernel_problem(node, phase);
}

// The ranges that a node depends on and that no loop below it has bound, sorted by address.
using FreeRanges = std::vector<const Node*>;

Ref outermost(const FreeRanges& ranges) {
  auto less = [](const Node* a, const Node* b) { return a->arg.i != b->arg.i ? a->arg.i < b->arg.i : a->key < b->key; };
  return Ref(*std::min_element(ranges.begin(), ranges.end(), less));
}

template <class T>
void join(std::vector<T>& all, const std::vector<T>& more) {
  std::vector<T> both;
  std::set_union(all.begin(), all.end(), more.begin(), more.end(), std::back_inserter(both));
  all = std::move(both);
}

// Where the ranges that the node itself loops over begin among its sources; past the end if it has
// none.
size_t first_bound(Ref node) {
  if (node->op == Op::Store) return 3;
  if (node->op == Op::LaneReduce) return 1;
  return is_reduce(node->op) ? ReduceView(node).values.size() : node->src.size();
}

// Sorted numbers of ranges.
using Numbers = std::vector<int64_t>;

// The loops below a node. No loop has the number of one inside of it: code generation tells values by the loops that
// they are in.
class Nesting {
 public:
  // Visits nodes in the order of toposort(). Returns the range that is bound again, or null.
  Ref visit(Ref node) {
    Numbers below;
    const size_t bound = first_bound(node);
    for (size_t k = 0; k < node->src.size(); ++k) join(below, below_.at(node->src[k].get()));
    Ref again;
    Numbers own;
    for (size_t k = bound; k < node->src.size(); ++k) {
      own.push_back(node->src[k]->arg.i);
      if (std::binary_search(below.begin(), below.end(), own.back())) again = node->src[k];
    }
    std::sort(own.begin(), own.end());
    join(below, own);
    below_[node.get()] = std::move(below);
    return again;
  }

 private:
  std::unordered_map<const Node*, Numbers> below_;
};

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

// A load of what no nest before has left on chip; null if there is none. Stores of one nest may read what others leave.
Ref read_before_stored(Ref root) {
  std::unordered_set<const Node*> stored;
  const auto stores_of = [](Ref nest) {
    return nest->op == Op::Sink ? Refs(nest->src.begin(), nest->src.end()) : Refs{nest};
  };
  for (Ref nest : root->src) {
    for (Ref store : stores_of(nest)) stored.insert(StoreView(store).buffer.get());
    for (Ref n : toposort(nest))
      if (n->op == Op::Load && n->src[0]->op == Op::Local && !stored.contains(n->src[0].get())) return n;
  }
  return Ref();
}

}  // namespace

std::optional<VerifyFault> fault_in(Ref root, Phase phase) {
  Refs order = toposort(root);
  for (Ref node : order)
    if (std::string problem = node_problem(node, phase); !problem.empty()) return fault_at(phase, node, problem);
  if (root->op != Op::Sink) return fault_at(phase, root, "the root is not a sink");
  if (phase == Phase::Tensor) return std::nullopt;
  Scopes scopes;
  Nesting nesting;
  for (Ref node : order) {
    if (const Ref again = nesting.visit(node); again)
      return fault_at(phase, node, "it loops over " + to_infix(again) + " around another loop of that number");
    const FreeRanges& free = scopes.visit(node);
    if (node->op == Op::Store && !free.empty())
      return fault_at(phase, node, "it uses " + to_infix(outermost(free)) + " outside of its loop");
  }
  return std::nullopt;
}

Status verify(Ref root, Phase phase) {
  auto fault = fault_in(root, phase);
  return fault ? Status(Error{std::move(fault->message)}) : Status();
}

Status verify_kernel(Ref tree, const std::string& name, const Machine& machine) {
  SMELT_CHECK(verify(tree, Phase::Kernel));
  if (const Ref load = read_before_stored(tree); load)
    return Error{fault_at(Phase::Kernel, load, "no nest of " + name + " stores before what it reads on chip").message};
  const std::string reason = why_too_much_on_chip(bytes_on_chip({&tree, 1}), on_chip_scope(machine));
  if (reason.empty()) return {};
  return Error{"[verify] kernel " + name + ": " + reason + "; lower local_bytes or tile_bytes of machine " +
               machine.name};
}

}  // namespace smelt
