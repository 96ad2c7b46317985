// Lanes that are threads of a block: which element a thread has, who stores, how threads combine their values.
#include <algorithm>
#include <set>

#include "codegen/block_threads.h"
#include "codegen/nest_emitter.h"
#include "graph/on_chip.h"

namespace smelt {
namespace {

constexpr size_t kFewSums = 4;  // of a thread, that are exchanged together

Op op_of(Ref reduction) { return LaneReduceView(reduction).reduce; }
Ref lanes_of(Ref reduction) { return LaneReduceView(reduction).lanes; }

int64_t count_in_warp(Ref reduction) { return count_in_warp(reduction->dtype, lanes_of(reduction)); }
bool crosses_warps(Ref reduction) { return crosses_warps(reduction->dtype, lanes_of(reduction)); }

Refs without_repeats(const Refs& nodes) {
  Refs once;
  for (Ref n : nodes)
    if (!contains(once, n)) once.push_back(n);
  return once;
}

}  // namespace

bool NestEmitter::is_over_threads(Ref n) {
  if (n->op != Op::LaneReduce) return false;
  const LaneReduceView view(n);
  return is_of_threads(view.lanes) && facts_.free_ranges(view.value).contains(view.lanes.get());
}

Value NestEmitter::thread() { return {add(0, {.kind = Inst::ThreadIndex, .dtype = DType::I64}), 0, 1}; }

Value NestEmitter::thread_lane(Ref range) {
  const int64_t stride = thread_stride(range), size = RangeView(range).count();
  Value lane = thread();
  if (stride > 1) lane = alu(Op::Div, DType::I64, {lane, integer(stride)});
  return stride * size < program_.threads ? alu(Op::Mod, DType::I64, {lane, integer(size)}) : lane;
}

// Of the threads that have the same element one stores it, the first; none: every thread has its own.
std::optional<Value> NestEmitter::storing_threads(const Refs& lanes) {
  Refs sorted = lanes;
  std::sort(sorted.begin(), sorted.end(), [](Ref a, Ref b) { return thread_stride(a) < thread_stride(b); });
  int64_t threads = 1;
  bool is_dense = true;
  for (Ref r : sorted) {
    is_dense &= thread_stride(r) == threads;
    threads *= RangeView(r).count();
  }
  if (is_dense && threads == program_.threads) return std::nullopt;
  if (is_dense) return alu(Op::Lt, DType::Bool, {thread(), integer(threads)});
  Value first = integer(0);
  for (Ref r : sorted)
    first = alu(Op::Add, DType::I64, {first, alu(Op::Mul, DType::I64, {value(r), integer(thread_stride(r))})});
  return alu(Op::Eq, DType::Bool, {thread(), first});
}

// --- reductions over threads, in the order of those over vectors: halves

Value NestEmitter::combined(Op reduce, Value x, Value y, DType dtype) {
  return alu(reduce == Op::ReduceMax ? Op::Max : Op::Add, dtype, {x, y});
}

// As expand() does it: an odd factor goes first.
Value NestEmitter::halves(Op reduce, std::vector<Value> terms, DType dtype) {
  const size_t even = terms.size() & -terms.size();
  for (size_t i = even; i < terms.size(); ++i) terms[i % even] = combined(reduce, terms[i % even], terms[i], dtype);
  for (size_t half = even / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) terms[i] = combined(reduce, terms[i], terms[half + i], dtype);
  return terms[0];
}

// The terms of a reduction that threads have stored for each other, along `count` threads a `stride` apart. Threads
// that the nest does not want, of which there may be too few for that, read what others do, who have the same element.
Value NestEmitter::reduce_exchanged(Ref reduction, const Exchange& exchange, int64_t stride, int64_t count) {
  const DType dtype = reduction->dtype;
  const int64_t together = stride * count;
  Value set = alu(Op::Div, DType::I64, {thread(), integer(together)});
  const int64_t sets = std::max<int64_t>(nest_threads_ / together, 1);
  if (sets * together < program_.threads) set = alu(Op::Mod, DType::I64, {set, integer(sets)});
  const Value first = alu(Op::Add, DType::I64,
                          {alu(Op::Mul, DType::I64, {set, integer(together)}),
                           alu(Op::Mod, DType::I64, {thread(), integer(stride)})}),
              base = alu(Op::Mul, DType::I64, {first, integer(size_of(dtype))});
  std::vector<Value> terms;
  for (int64_t i = 0; i < count; ++i) {
    const Value at = alu(Op::Add, DType::I64, {base, integer(i * stride * size_of(dtype))});
    terms.push_back(
        {add(exchange.depth, {.kind = Inst::Load, .dtype = dtype, .src = {exchange.pointer, at.id}}), exchange.depth});
  }
  return halves(op_of(reduction), std::move(terms), dtype);
}

// `number`: bits in which its index differs from that of the thread (Shuffle), or its place in the warp (WarpItem).
Value NestEmitter::of_other_thread(Inst which, Value x, DType dtype, int64_t number) {
  return {add(top(), {.kind = which, .dtype = dtype, .src = {x.id}, .arg = {.i = number}}), top()};
}

// Each thread gives its own term to the one whose index differs in a bit, until all have all.
Value NestEmitter::reduce_in_warp(Ref reduction, Value x, int64_t stride, int64_t count) {
  for (int64_t bits = stride * count / 2; bits >= stride; bits /= 2) {
    const Value other{
        add(x.depth, {.kind = Inst::Shuffle, .dtype = reduction->dtype, .src = {x.id}, .arg = {.i = bits}}), x.depth};
    x = combined(op_of(reduction), x, other, reduction->dtype);
  }
  return x;
}

NestEmitter::Exchange NestEmitter::store_for_others(Value x, DType dtype) {
  const int64_t bytes = size_of(dtype);
  const auto [place, is_new] = scratch_.exchanges.try_emplace({bytes, exchanges_++}, program_.scratch_bytes);
  if (is_new) program_.scratch_bytes += aligned_on_chip(program_.threads * bytes);
  const int pointer = add(0, {.kind = Inst::Scratch, .arg = {.i = place->second}});
  const Value at = alu(Op::Mul, DType::I64, {thread(), integer(bytes)});
  add(x.depth, {.kind = Inst::Store, .dtype = dtype, .src = {pointer, at.id, x.id}});
  return {pointer, x.depth};
}

// All store before any reads, so that threads wait for each other once.
void NestEmitter::reduce_threads(Refs reductions) {
  reductions = without_repeats(reductions);  // copies of an output may share a sum
  Refs terms;
  for (Ref n : reductions) terms.push_back(LaneReduceView(n).value);
  compute_together(terms);
  std::vector<Exchange> exchanges;
  for (Ref n : reductions)
    exchanges.push_back(crosses_warps(n) ? store_for_others(value(LaneReduceView(n).value), n->dtype) : Exchange{});
  for (size_t i = 0; i < reductions.size(); ++i) {
    const Ref n = reductions[i];
    const int64_t stride = thread_stride(lanes_of(n)), count = RangeView(lanes_of(n)).count(),
                  in_warp = count_in_warp(n);
    Value x = value(LaneReduceView(n).value);
    if (crosses_warps(n)) x = reduce_exchanged(n, exchanges[i], stride * in_warp, count / in_warp);
    values_[n.get()] = reduce_in_warp(n, x, stride, in_warp);
  }
}

// A few sums that make up what is stored, as a gate and what it is multiplied with, each of which warps share: one
// behind the other they would wait for each other as often. Where a thread has many, as of several tokens, they stay in
// turn, for each takes a register until all have been stored.
void NestEmitter::exchange_together(const Refs& stored) {
  if (!is_block()) return;
  Refs sums;
  std::set<const Node*> within;  // what others are made of is exchanged with them
  for (Ref s : stored)
    for (Ref n : toposort(s)) {
      const bool has_some = std::any_of(n->src.begin(), n->src.end(), [&](Ref x) { return within.contains(x.get()); });
      const bool crosses = is_over_threads(n) && crosses_warps(n);
      if (has_some && crosses) return;
      if (has_some || crosses) within.insert(n.get());
      if (crosses && !contains(sums, n)) sums.push_back(n);
    }
  if (sums.size() < 2 || sums.size() > kFewSums ||
      !std::all_of(sums.begin(), sums.end(), [&](Ref n) { return all_known(facts_.free_ranges(n)); }))
    return;
  for (Ref n : sums) value(LaneReduceView(n).value);
  reduce_threads(sums);
}

}  // namespace smelt
