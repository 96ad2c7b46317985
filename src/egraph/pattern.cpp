#include "egraph/pattern.h"

#include <functional>
#include <map>

#include "base/ensure.h"

namespace smelt::egraph {

Pat Pat::as(int name) const {
  Pat p = *this;
  p.bound = name;
  return p;
}

Pat any(int variable) { return {.variable = variable, .op = {}, .src = {}}; }
Pat op(EOp op, std::vector<Pat> src) { return {.op = op, .src = std::move(src)}; }
Pat op(Op o, std::vector<Pat> src) { return op(eop(o), std::move(src)); }
Pat contract(Pat x, Pat w) { return op(EOp::Contract, {std::move(x), std::move(w)}); }

// Backtracking in continuation style: `rest` is what remains to be matched once this part is.
class Matcher {
 public:
  using Rest = std::function<void(const Match&)>;

  explicit Matcher(const EGraph& g) : g_(g) {
    for (ClassId id : g.classes())
      for (const ENode& node : g.at(id).nodes) {
        std::vector<ClassId>& list = by_op_[node.op];
        if (list.empty() || list.back() != id) list.push_back(id);
      }
  }

  void roots(const std::vector<Pat>& patterns, size_t i, const Match& m, const Rest& rest) const {
    if (i == patterns.size()) return rest(m);
    ENSURE(patterns[i].variable < 0, "a left side is an op over patterns");
    const auto it = by_op_.find(patterns[i].op);
    if (it == by_op_.end()) return;
    for (ClassId id : it->second)
      in_class(patterns[i], id, m, [&](const Match& matched) {
        Match next = matched;
        next.roots_.push_back(id);
        roots(patterns, i + 1, next, rest);
      });
  }

 private:
  void in_class(const Pat& pat, ClassId id, const Match& m, const Rest& rest) const {
    if (pat.variable >= 0) {
      const auto& known = m.classes_[pat.variable];
      if (known) {
        if (*known == id) rest(m);
        return;
      }
      Match next = m;
      next.classes_[pat.variable] = id;
      return rest(next);
    }
    for (const ENode& node : g_.at(id).nodes)
      if (node.op == pat.op && (pat.src.empty() || node.src.size() == pat.src.size())) in_node(pat, node, 0, m, rest);
  }

  void in_node(const Pat& pat, const ENode& node, size_t i, const Match& m, const Rest& rest) const {
    if (i < pat.src.size())
      return in_class(pat.src[i], g_.find(node.src[i]), m,
                      [&](const Match& next) { in_node(pat, node, i + 1, next, rest); });
    if (pat.bound < 0) return rest(m);
    Match next = m;
    next.nodes_[pat.bound] = node;
    rest(next);
  }

  const EGraph& g_;
  std::map<EOp, std::vector<ClassId>> by_op_;
};

std::vector<Match> search(const EGraph& g, const std::vector<Pat>& patterns) {
  std::vector<Match> found;
  Matcher(g).roots(patterns, 0, {}, [&](const Match& m) { found.push_back(m); });
  return found;
}

}  // namespace smelt::egraph
