#include <algorithm>

#include "base/ensure.h"
#include "codegen/opt.h"
#include "codegen/packed_bytes.h"
#include "codegen/passes.h"
#include "graph/rules_algebra.h"

namespace smelt {

Refs pack_dots(const Refs& stores) {
  const auto pack = [](Ref, Ref n) {
    if (n->op != Op::ReduceSum) return n;
    const auto packed = std::find_if(n->src.begin() + 1, n->src.end(),
                                     [](Ref r) { return kind_of(r) == RangeKind::Packed; });
    if (packed == n->src.end()) return n;
    const Ref dot = packed_dot(n->src[0], *packed);
    ENSURE(dot, "a range is packed whose products are not sums of bytes");
    Refs src{dot};
    for (size_t i = 1; i < n->src.size(); ++i)
      if (n->src[i] != *packed) src.push_back(n->src[i]);
    return src.size() == 1 ? dot : with_sources(n, std::move(src));
  };
  Refs out;
  for (Ref s : stores) out.push_back(rebuild(s, pack));
  return out;
}

}  // namespace smelt
