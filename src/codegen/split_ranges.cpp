#include <algorithm>
#include <numeric>
#include <optional>

#include "codegen/opt.h"
#include "codegen/passes.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

struct Cut {
  Ref range;
  int64_t amount;  // length of the inner part
};

constexpr int64_t kLeastPart = 16;  // of c, that is worth a loop: as many neighbours as lanes are

// Where `expr` is divided by c: the range in it whose steps could be grouped so that a group makes exactly c. Where the
// length of the range is not known to be a multiple of that, as that of positions under a mask and pages of 64, a group
// makes a part of c: then at least neighbours in a group follow each other.
std::optional<Cut> cut_for(Ref expr, int64_t c) {
  for (Ref range : ranges_of(expr)) {
    const RangeKind kind = kind_of(range);
    if (kind != RangeKind::Loop && kind != RangeKind::Reduce) continue;
    const auto step = stride(expr, range);
    if (!step || *step <= 0 || c % *step != 0) continue;
    const int64_t divisor = known_divisor(range->src[0]), common = std::gcd(c / *step, divisor);
    const bool is_whole = common == c / *step;
    const int64_t amount = is_whole || common >= kLeastPart ? common : 1;
    if (amount > 1 && !is_const(range->src[0], amount)) return Cut{range, amount};
  }
  return std::nullopt;
}

std::optional<Cut> smallest_cut(const Refs& stores) {
  std::optional<Cut> best;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if ((n->op != Op::Div && n->op != Op::Mod) || !is_int(n->dtype)) continue;
      const auto c = const_int(n->src[1]);
      if (!c) continue;
      const auto cut = cut_for(n->src[0], *c);
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
    const Refs axes = axes_of(current);
    const int axis =
        static_cast<int>(std::find(axes.begin(), axes.end(), cut->range) - axes.begin());
    current = apply_opt(current, {OptKind::Split, axis, cut->amount});
  }
  return current;
}

}  // namespace smelt
