// E-matching: patterns over an e-graph.
//
//   const Pat x = any(0), w = any(1), v = any(2);
//   contract(contract(x, w), v)               finds every class with such a node, whichever way it is computed
//   op(Op::Reshape, {x}).as(0)                m.node(0) is then that node, with its shape and arg
//   op(EOp::Concat, {}).as(0)                 whatever its sources are
//
// A pattern says nothing of shapes and args: the right side of a rule (saturate.h) looks at them.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "egraph/egraph.h"

namespace smelt::egraph {

struct Pat {
  int variable = -1;  // of any(): which; else an op over patterns
  EOp op{};
  std::vector<Pat> src;
  int bound = -1;  // as(): where the node is kept

  Pat as(int name) const;
};

Pat any(int variable);  // any class; the same class wherever the variable stands again
Pat op(EOp op, std::vector<Pat> src);
Pat op(Op op, std::vector<Pat> src);
Pat contract(Pat x, Pat w);

// What a list of patterns matched together.
class Match {
 public:
  static constexpr size_t kVariables = 8, kNodes = 4;

  ClassId operator[](const Pat& variable) const { return *classes_[variable.variable]; }
  const ENode& node(int name) const { return nodes_[name]; }
  ClassId root(size_t i) const { return roots_[i]; }  // the class that the i-th pattern matched
  size_t roots() const { return roots_.size(); }

 private:
  friend class Matcher;
  std::array<std::optional<ClassId>, kVariables> classes_;
  std::array<ENode, kNodes> nodes_;
  std::vector<ClassId> roots_;
};

// All matches of the patterns with one binding of their variables. REQUIRES: g is rebuilt.
std::vector<Match> search(const EGraph& g, const std::vector<Pat>& patterns);

}  // namespace smelt::egraph
