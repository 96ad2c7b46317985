#include "egraph/saturate.h"

#include "base/ensure.h"

namespace smelt::egraph {
namespace {

// Whether the graph has learned something.
bool apply(EGraph& g, const Rule& rule, const Match& m) {
  const std::vector<ClassId> equal = rule.right(g, m);
  if (equal.empty()) return false;
  ENSURE(equal.size() == m.roots(), rule.name + ": a right side for each left side");
  bool learned = false;
  for (size_t i = 0; i < equal.size(); ++i) learned |= g.merge(m.root(i), equal[i]);
  return learned;
}

}  // namespace

Report saturate(EGraph& g, const std::vector<Rule>& rules, const Limits& limits) {
  Report report;
  g.rebuild();
  while (true) {
    if (report.rounds == limits.rounds) return report.why = Stopped::Rounds, report;
    ++report.rounds;
    std::vector<std::vector<Match>> found;
    for (const Rule& rule : rules) found.push_back(search(g, rule.left));
    bool learned = false;
    for (size_t r = 0; r < rules.size(); ++r)
      for (const Match& m : found[r]) {
        if (g.node_count() >= limits.nodes) {
          g.rebuild();
          return report.why = Stopped::Nodes, report;
        }
        if (!apply(g, rules[r], m)) continue;
        ++report.fired[rules[r].name];
        learned = true;
      }
    g.rebuild();
    if (!learned) return report;
  }
}

}  // namespace smelt::egraph
