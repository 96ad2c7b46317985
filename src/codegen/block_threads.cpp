#include "codegen/block_threads.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "codegen/program.h"
#include "graph/on_chip.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

// Behind the last thread digit that the range takes.
int64_t end_of(Ref range) { return is_of_threads(range) ? thread_stride(range) * RangeView(range).count() : 0; }

// Ranges that are needed at the same time: those of the outputs of a store; those of a reduction beside those that its
// terms depend on.
std::vector<Refs> ranges_together(const Refs& stores) {
  std::vector<Refs> together;
  for (Ref s : stores) {
    together.push_back(own_ranges(s));
    for (Ref n : toposort(s)) {
      if (!is_reduce(n->op)) continue;
      Refs ranges = ranges_of(n);
      for (Ref own : own_ranges(n)) ranges.push_back(own);
      together.push_back(std::move(ranges));
    }
  }
  return together;
}

bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

}  // namespace

// Behind all of them. Digits that are not needed together may overlap, and one that is needed with both begins where
// both begin anew: t % 3 and t % 4 beside t / 12.
int64_t stride_of_threads(const Refs& stores, Ref range) {
  int64_t stride = 1;
  for (const Refs& ranges : ranges_together(stores)) {
    if (!contains(ranges, range)) continue;
    for (Ref r : ranges) stride = std::lcm(stride, std::max<int64_t>(end_of(r), 1));
  }
  return stride;
}

int threads_of(const Refs& stores) {
  int64_t end = 1;
  for (Ref s : stores)
    for (Ref r : ranges_of(s)) end = std::max(end, end_of(r));
  return end == 1 ? 1 : static_cast<int>((end + kWarp - 1) / kWarp * kWarp);
}

int64_t count_in_warp(DType dtype, Ref range) {
  const int64_t stride = thread_stride(range), count = RangeView(range).count();
  if (size_of(dtype) != 4 || !is_power_of_two(stride) || !is_power_of_two(count)) return 1;
  return std::clamp<int64_t>(kWarp / stride, 1, count);
}

int64_t exchange_bytes(const Refs& stores, int threads) {
  std::set<const Node*> seen;
  int64_t bytes = 0;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (!is_reduce(n->op) || !seen.insert(n.get()).second) continue;
      int64_t crossings = 0;
      for (Ref r : ReduceView(n).ranges) crossings += is_of_threads(r) && crosses_warps(n->dtype, r);
      if (crossings > 0) bytes += crossings * copies_of(n) * aligned_on_chip(threads * size_of(n->dtype));
    }
  return bytes;
}

}  // namespace smelt
