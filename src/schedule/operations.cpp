#include "schedule/operations.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

class FreeRanges {
 public:
  const std::set<const Node*>& of(Ref n) {
    const auto [known, is_new] = free_.try_emplace(n.get());
    std::set<const Node*>& mine = known->second;
    if (!is_new) return mine;
    if (n->op == Op::Range) mine.insert(n.get());
    for (Ref s : n->src) mine.merge(std::set(of(s)));
    if (is_reduce(n->op))
      for (Ref r : ReduceView(n).ranges) mine.erase(r.get());
    return mine;
  }

 private:
  std::map<const Node*, std::set<const Node*>> free_;
};

}  // namespace

double operations_of(Ref store) {
  FreeRanges free;
  double total = 0;
  for (Ref n : toposort(StoreView(store).value)) {
    std::set<const Node*> ranges = free.of(n);
    if (is_reduce(n->op))
      for (Ref r : ReduceView(n).ranges) ranges.insert(r.get());
    double times = is_elementwise(n->op) || is_reduce(n->op) ? 1 : 0;
    for (const Node* r : ranges) times *= static_cast<double>(std::max<int64_t>(RangeView(Ref(r)).size->max, 1));
    total += times;
  }
  return total;
}

}  // namespace smelt
