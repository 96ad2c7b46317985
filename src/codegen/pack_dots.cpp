#include <algorithm>

#include "base/ensure.h"
#include "codegen/opt.h"
#include "codegen/packed_bytes.h"
#include "codegen/passes.h"
#include "graph/rules_algebra.h"

namespace smelt {

namespace {

Refs without(std::span<const Ref> ranges, Ref range) {
  Refs out(ranges.begin(), ranges.end());
  std::erase(out, range);
  return out;
}

// A store of bytes side by side becomes one of words.
Ref pack_store(Ref store) {
  const StoreView s(store);
  const Ref bytes = first_of_kind(s.ranges, RangeKind::Byte);
  if (!bytes) return store;
  const Ref word = word_to_store(s.value, bytes);
  ENSURE(word, "the bytes of a range make no words");
  return make_store(s.buffer, substitute(s.offset, {{bytes, constant(0)}}), word, without(s.ranges, bytes));
}

}  // namespace

Refs pack_dots(const Refs& stores) {
  const auto pack = [](Ref, Ref n) {
    if (n->op != Op::ReduceSum) return n;
    const ReduceView sum(n);
    const Ref bytes = first_of_kind(sum.ranges, RangeKind::Byte);
    if (!bytes) return n;
    const Ref dot = packed_dot(sum.values[0], bytes);
    ENSURE(dot, "the terms along a range are no products of bytes");
    const Refs rest = without(sum.ranges, bytes);
    return rest.empty() ? dot : make_reduce(Op::ReduceSum, n->dtype, {dot}, rest);
  };
  Refs out;
  for (Ref s : stores) out.push_back(pack_store(rebuild(s, pack)));
  return out;
}

}  // namespace smelt
