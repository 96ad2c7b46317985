#include "schedule/topk_by_rank.h"

#include <limits>

#include "graph/args.h"
#include "graph/operands.h"
#include "graph/tensor.h"

namespace smelt {
namespace {

constexpr int64_t kMostRanked = 1024;  // elements of a row, of which each is compared with each

Tensor i32(Tensor x) { return cast(x, DType::I32); }

Tensor ranked(Ref topk) {
  const Tensor x(operand_of(topk));
  const int last = x.rank() - 1;
  const int64_t n = x.size(last), k = top_count(topk);
  const Tensor lowest = scalar(std::numeric_limits<float>::lowest());
  const Tensor key = place(where(equal(x, x), x, lowest));  // [..., n]
  const Tensor mine = unsqueeze(key, last + 1), other = unsqueeze(key, last);
  const Tensor index = iota({n}, 0), mine_at = unsqueeze(index, 1), other_at = unsqueeze(index, 0);
  const Tensor is_before = less(mine, other) | (equal(mine, other) & less(other_at, mine_at));  // [..., n, n]
  const Tensor rank = place(sum(i32(is_before), -1));                                           // [..., n]
  const Tensor place_of = i32(unsqueeze(iota({k}, 0), 1));                                      // [k, 1]
  return sum(i32(equal(unsqueeze(rank, last), place_of)) * i32(index), -1);                     // [..., k]
}

bool can_be_ranked(Ref n) {
  if (n->op != Op::TopK || operand_of(n)->dtype != DType::F32) return false;
  const auto count = const_int(operand_of(n)->shape.back());
  return count && *count <= kMostRanked;
}

}  // namespace

Ref topk_by_rank(Ref root, const Machine& machine) {
  if (!machine.has_threads()) return root;
  return rebuild(root, [](Ref, Ref n) { return can_be_ranked(n) ? ranked(n).ref() : n; });
}

}  // namespace smelt
