#include <algorithm>

#include "base/ensure.h"
#include "codegen/opt.h"
#include "codegen/packed_bytes.h"
#include "codegen/passes.h"
#include "graph/rules_algebra.h"

namespace smelt {

namespace {

// A store of bytes side by side becomes one of words.
Ref pack_store(Ref store) {
  const auto packed = std::find_if(store->src.begin() + 3, store->src.end(),
                                   [](Ref r) { return kind_of(r) == RangeKind::Packed; });
  if (packed == store->src.end()) return store;
  const Ref word = packed_bytes(store->src[2], *packed);
  ENSURE(word, "a range is packed whose bytes make no words");
  Refs src{store->src[0], substitute(store->src[1], {{*packed, constant(0)}}), word};
  for (size_t i = 3; i < store->src.size(); ++i)
    if (store->src[i] != *packed) src.push_back(store->src[i]);
  return with_sources(store, std::move(src));
}

}  // namespace

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
  for (Ref s : stores) out.push_back(pack_store(rebuild(s, pack)));
  return out;
}

}  // namespace smelt
