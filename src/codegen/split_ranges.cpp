#include <algorithm>
#include <numeric>
#include <optional>

#include "codegen/opt.h"
#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

struct Cut {
  Ref range;
  int64_t amount;  // length of the inner part
};

constexpr int64_t kLeastPart = 16;  // trip count of a divisor of c that is worth a loop: enough for all lanes

// Where `expr` is divided by c: a range of stride s in it, to be split so that the inner part spans exactly c (c / s
// iterations). Where c / s is not known to divide the trip count, as for positions under a mask and pages of 64, the
// inner part spans a divisor of c: then at least its iterations stay in one page.
std::optional<Cut> cut_for(Ref expr, int64_t c) {
  for (Ref range : ranges_of(expr)) {
    if (!is_serial(range)) continue;
    const Ref size = RangeView(range).size;
    const auto step = stride(expr, range);
    if (!step || *step <= 0 || c % *step != 0) continue;
    const int64_t divisor = known_divisor(size), common = std::gcd(c / *step, divisor);
    const bool is_whole = common == c / *step;
    const int64_t amount = is_whole || common >= kLeastPart ? common : 1;
    if (amount > 1 && !is_const(size, amount)) return Cut{range, amount};
  }
  return std::nullopt;
}

std::optional<Cut> smallest_cut(const Refs& stores) {
  std::optional<Cut> best;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if ((n->op != Op::Div && n->op != Op::Mod) || !is_int(n->dtype)) continue;
      const auto c = const_int(BinaryView(n).y);
      if (!c) continue;
      const auto cut = cut_for(BinaryView(n).x, *c);
      if (cut && (!best || cut->amount < best->amount)) best = cut;
    }
  return best;
}

}  // namespace

Refs split_ranges(const Refs& stores) {
  Refs current = stores;
  for (int rounds = 0; rounds < 64; ++rounds) {
    const auto cut = smallest_cut(current);
    if (!cut) break;
    current = apply_opt(current, {OptKind::Split, id_of(current, cut->range), cut->amount});
  }
  return current;
}

}  // namespace smelt
