#include <algorithm>
#include <numeric>
#include <utility>

#include "base/ensure.h"
#include "codegen/nest_emitter.h"
#include "graph/index_sum.h"
#include "graph/matrix_shape.h"
#include "graph/on_chip.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// Of products of matrices in a tile: what is nearer is read too soon, and rows are asked for one by one.
constexpr int64_t kLeastAhead = 2 << 10, kMostRowsAhead = 64;

// In the order in which each op comes first.
std::vector<Refs> by_op(const Refs& nodes) {
  std::vector<Refs> kinds;
  for (Ref n : nodes) {
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Refs& k) { return k[0]->op == n->op; });
    if (kind == kinds.end())
      kinds.push_back({n});
    else
      kind->push_back(n);
  }
  return kinds;
}

}  // namespace

// The order in which operands are computed. Of a chain of multiply-adds the sum so far comes first: then a product is
// added as soon as it is there, and neither registers nor loads wait for the products behind it. And what a unit of
// many registers makes comes before what it is multiplied with, which would hold others in the meantime.
std::vector<size_t> NestEmitter::order_of_operands(Ref n) {
  if (n->op == Op::Fma) return {2, 0, 1};
  std::vector<size_t> order(n->src.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (has_halves_)
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return facts_.height(n->src[a]) > facts_.height(n->src[b]); });
  return order;
}

Value NestEmitter::alu(Op op, DType dtype, const std::vector<Value>& src, Arg arg) {
  Instruction out{.kind = Inst::Value, .op = op, .dtype = dtype, .arg = std::move(arg)};
  Value v{.depth = least_depth_};
  for (const Value& s : src) {
    out.src.push_back(s.id);
    v.depth = std::max(v.depth, s.depth);
    v.lanes = std::max(v.lanes, s.lanes);
  }
  out.lanes = v.lanes;
  v.id = add(v.depth, std::move(out));
  return v;
}

Value NestEmitter::integer(int64_t x) { return value(constant(x)); }

Value NestEmitter::number(double x, DType dtype) { return value(constant_f(x, dtype)); }

Value NestEmitter::value(Ref n) {
  if (auto it = values_.find(n.get()); it != values_.end()) return it->second;
  if (is_reduce(n->op)) {
    emit_reductions(n);
    return values_.at(n.get());
  }
  const Value v = compute(n);
  values_[n.get()] = v;
  return v;
}

// Computes values of equal structure, such as the copies that UPCAST makes, operation by operation: what they share, as
// an unpacked word of weights, has a short live range. Those of several structures, as the sums of weights and the sums
// of minima are, each kind by itself.
void NestEmitter::compute_together(Refs nodes) {
  std::erase_if(nodes, [&](Ref n) { return values_.contains(n.get()); });
  if (is_block() && nodes.size() > 1 &&
      std::all_of(nodes.begin(), nodes.end(), [&](Ref n) { return is_over_threads(n); }))
    return reduce_threads(nodes);
  for (const Refs& alike : by_op(nodes))
    if (alike.size() > 1 && is_elementwise(alike[0]->op))
      for (size_t i : order_of_operands(alike[0])) {
        Refs operands;
        for (Ref n : alike) operands.push_back(n->src[i]);
        compute_together(std::move(operands));
      }
  for (Ref n : nodes) value(n);
}

Value NestEmitter::compute(Ref n) {
  switch (n->op) {
    case Op::Const: return {add(0, {.kind = Inst::Value, .op = Op::Const, .dtype = n->dtype, .arg = n->arg}), 0, 1};
    case Op::Var: return symbol(n);
    case Op::Param:
      return {add(0, {.kind = Inst::Buffer, .arg = {.i = number_of_buffer(n), .list = n->arg.list}}), 0, 1};
    case Op::Local: return local(n);
    case Op::Range: return lane_index(n);
    case Op::Load: return load(n);
    case Op::LaneReduce: return lane_reduce(n);
    case Op::MatrixDot: return matrix_dot(n, {});
    case Op::MatrixItem: return matrix_item(n, value(MatrixItemView(n).product));
    case Op::TopKLane: value(topk_of(n)); return topk_items_.at({topk_of(n).get(), top_place(n)});
    default: break;
  }
  ENSURE(is_elementwise(n->op), std::string("cannot linearize ") + std::string(name_of(n->op)));
  for (size_t i : order_of_operands(n)) value(n->src[i]);
  std::vector<Value> src;
  for (Ref s : n->src) src.push_back(value(s));
  return alu(n->op, n->dtype, src, n->arg);
}

Value NestEmitter::symbol(Ref variable) {
  const std::string& name = variable->arg.name;
  std::vector<std::string>& symbols = program_.symbols;
  auto it = std::find(symbols.begin(), symbols.end(), name);
  const int64_t position = it - symbols.begin();
  if (it == symbols.end()) symbols.push_back(name);
  return {add(0, {.kind = Inst::Symbol, .dtype = DType::I64, .arg = {.i = position, .list = variable->arg.list}}), 0,
          1};
}

Value NestEmitter::local(Ref n) {
  const int64_t number = number_of_buffer(n);
  if (!scratch_.locals.contains(number)) {
    scratch_.locals[number] = program_.scratch_bytes;
    program_.scratch_bytes += room_of_local(n);
  }
  return {add(0, {.kind = Inst::Scratch, .arg = {.i = scratch_.locals[number]}}), 0, 1};
}

Value NestEmitter::lane_index(Ref range) {
  ENSURE(kind_of(range) == RangeKind::Lane, "a range without a loop around it");
  if (is_of_threads(range)) return thread_lane(range);
  const int lanes = facts_.lanes(range);
  return {add(0, {.kind = Inst::LaneIndex, .dtype = DType::I64, .lanes = lanes}), 0, lanes};
}

Value NestEmitter::load(Ref n) {
  auto [buffer, offset] = LoadView(n);
  int lanes = facts_.lanes(offset);
  if (lanes > 1)
    for (const Node* r : facts_.free_ranges(offset)) {
      const Ref range(r);
      if (kind_of(range) != RangeKind::Lane || stride(offset, range) != size_of(n->dtype)) continue;
      offset = substitute(offset, {{range, constant(0)}});
      break;
    }
  const Value pointer = value(buffer), at = value(offset);
  // What a nest of the tile has written is not there before.
  const int written = written_.contains(buffer.get()) ? floor_ : 0;
  const int depth = std::max({pointer.depth, at.depth, written, least_depth_});
  const bool is_vector = lanes > 1 && at.lanes == 1 && is_from_memory(buffer, LoadView(n).offset);
  const int64_t ahead = is_vector && depth > 0 ? bytes_ahead(n, offset, depth) : 0;
  if (ahead && !is_hinted(buffer, offset, lanes * size_of(n->dtype), ahead)) prefetch(pointer, at, ahead);
  Instruction out{.kind = Inst::Load, .dtype = n->dtype, .lanes = lanes, .src = {pointer.id, at.id}};
  out.arg.i = is_vector && !is_tile() && is_word(n);
  return {add(depth, std::move(out)), depth, lanes};
}

// Weights lie in the order in which loops use them (see WeightLayout), so hardware prefetchers follow them as long as
// loads keep this order. Some run far ahead of it, and hints would cost a tenth to a third (Zen 4); others stay close:
// with hints a token is read 1.13 to 1.2 times as fast on a Xeon, 1.2 to 2 times on Zen 5. A tile computes for long
// between reads, and hardware prefetchers give up: it prefetches by itself. So do several outputs that share what is
// read: their arithmetic fills the reorder buffer, and the loads of the next block are issued too late (measured: Q4_0
// for 8 tokens from 217 to 350 GOP/s a core).
int64_t NestEmitter::bytes_ahead(Ref load, Ref offset, int depth) {
  if (is_tile()) return bytes_ahead_in_tile(offset, depth);
  if (shared_.contains(load.get())) return machine_.shared_ahead_bytes;
  return is_word(load) ? machine_.stream_ahead_bytes : 0;
}

// Loads of half a line need a hint every other time: none where what follows is within a line of another hint, so that
// each line still has one.
bool NestEmitter::is_hinted(Ref buffer, Ref offset, int64_t bytes, int64_t ahead) {
  auto at = index_sum(offset);
  if (!at) return false;
  const int64_t begin = std::exchange(at->constant, 0);
  std::set<int64_t>& hinted = hinted_[{buffer.get(), to_node(*at).get(), ahead}];
  const auto near = hinted.lower_bound(begin + bytes - machine_.line_bytes);
  if (near != hinted.end() && *near <= begin) return true;
  hinted.insert(begin);
  return false;
}

int64_t NestEmitter::bytes_ahead_in_tile(Ref offset, int depth) {
  if (is_in_reduction(offset)) return machine_.tile_ahead_bytes;
  // Read once for an output, whose sum takes long: prefetch for the next output.
  const Refs& ranges = scopes_[static_cast<size_t>(depth)].ranges;
  const auto innermost = std::find_if(ranges.rbegin(), ranges.rend(), [&](Ref r) { return depends_on(offset, r); });
  return innermost == ranges.rend() ? 0 : stride(offset, *innermost).value_or(0);
}

bool NestEmitter::is_in_reduction(Ref offset) {
  const RangeSet& ranges = facts_.free_ranges(offset);
  return std::any_of(ranges.begin(), ranges.end(), [](const Node* r) { return kind_of(Ref(r)) == RangeKind::Reduce; });
}

// Loads that more than one output makes use of.
void NestEmitter::find_shared(const Refs& stores) {
  shared_.clear();
  std::set<const Node*> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Load && !seen.insert(n.get()).second) shared_.insert(n.get());
}

bool NestEmitter::is_from_memory(Ref buffer, Ref offset) const {
  return buffer->op == Op::Param && offset->max >= machine_.streamed_bytes;
}

bool NestEmitter::is_tile() const { return nests_.size() > 1; }

bool NestEmitter::is_word(Ref load) { return is_int(load->dtype) && size_of(load->dtype) == 4; }

void NestEmitter::prefetch(Value pointer, Value at, int64_t bytes) {
  if (!is_block())
    add(std::max(pointer.depth, at.depth), {.kind = Inst::Prefetch, .src = {pointer.id, at.id}, .arg = {.i = bytes}});
}

// A unit takes little time for what it reads, and waits for each row. So of the columns of a product, row by row of
// words, those of the next round of the outermost loop over outputs are asked for: a sum over positions, which goes
// from page to page, stands inside. What the rows of the product are made of is on chip, or read again for all columns.
void NestEmitter::ask_for_columns(Ref product, const MatrixShape& shape, int depth) {
  const MatrixInMemoryView view(product);
  const bool is_first = asked_.insert(view.b_offset.get()).second;
  if (!is_tile() || !is_first || !is_from_memory(view.b, view.b_offset) || shape.words() > kMostRowsAhead) return;
  const int64_t ahead = bytes_to_next_output(view.b_offset, depth).value_or(machine_.tile_ahead_bytes);
  for (int64_t k = 0; k < shape.words() && depth > 0; ++k)
    prefetch(value(view.b), value(view.b_offset), ahead + k * shape.b_stride);
}

// A product of halves takes long for its rows, and those of the next tile come from far away meanwhile.
MatrixShape NestEmitter::with_rows_ahead(Ref product, MatrixShape shape) const {
  const MatrixInMemoryView view(product);
  if (!is_from_memory(view.a, view.a_offset)) return shape;
  for (Ref r : ranges_of(view.a_offset))
    if (kind_of(r) == RangeKind::Tile) shape.a_ahead = stride(view.a_offset, r).value_or(0);
  return shape;
}

// Where it is known and not so far that caches would lose it again.
std::optional<int64_t> NestEmitter::bytes_to_next_output(Ref offset, int depth) {
  for (int d = floor_ + 1; d <= depth; ++d)
    for (Ref r : scopes_[static_cast<size_t>(d)].ranges) {
      if (kind_of(r) != RangeKind::Loop || !depends_on(offset, r)) continue;
      const auto step = stride(offset, r);
      if (step && *step >= kLeastAhead && *step <= machine_.tile_ahead_bytes) return step;
    }
  return std::nullopt;
}

// `sums`: of fragments, what the first product of a chain is added to, by register; none where it begins at zero or
// has sums of its own.
Value NestEmitter::matrix_dot(Ref n, const std::vector<Value>& sums) {
  const MatrixShape shape = matrix_shape(n->arg.list);
  const int lanes = shape.in_fragments ? 1 : static_cast<int>(shape.n);
  Instruction out{.kind = Inst::MatrixDot, .dtype = n->dtype, .lanes = lanes, .arg = n->arg};
  int depth = least_depth_;
  const auto add_operand = [&](const Value& v) {
    out.src.push_back(v.id);
    depth = std::max(depth, v.depth);
  };
  const auto add_source = [&](Ref s) {
    add_operand(value(s));
    if (written_.contains(s.get())) depth = std::max(depth, floor_);
  };
  const Ref before = sums.empty() || !shape.in_fragments ? Ref() : product_before(n);
  if (!before) {
    for (Ref s : n->src) add_source(s);
    for (const Value& sum : sums) add_operand(sum);
    if (!shape.in_fragments && !shape.of_halves) ask_for_columns(n, shape, depth);
    if (shape.of_halves && !shape.in_fragments) out.arg.list = with_rows_ahead(n, shape).list();
  } else {
    const Value so_far = matrix_dot(before, sums);
    const MatrixDotView view(n);
    for (Ref word : view.words) add_source(word);
    for (Ref item : view.sums) add_operand(matrix_item(item, so_far));
  }
  return {add(depth, std::move(out)), depth, lanes};
}

Value NestEmitter::matrix_item(Ref n, Value product) {
  const auto number = const_int(MatrixItemView(n).number);
  ENSURE(number, "the items of a product of matrices are not written out");
  return {add(product.depth, {.kind = Inst::MatrixItem,
                              .dtype = n->dtype,
                              .lanes = product.lanes,
                              .src = {product.id},
                              .arg = {.i = *number}}),
          product.depth, product.lanes};
}

Value NestEmitter::lane_reduce(Ref n) {
  if (is_over_threads(n)) {
    reduce_threads({n});
    return values_.at(n.get());
  }
  const LaneReduceView view(n);
  const Value x = value(view.value);
  if (x.lanes > 1)
    return {add(x.depth, {.kind = Inst::LaneReduce, .op = view.reduce, .dtype = n->dtype, .src = {x.id}}), x.depth, 1};
  if (view.reduce == Op::ReduceMax) return x;
  const int64_t lanes = RangeView(view.lanes).count();
  return alu(Op::Mul, n->dtype,
             {x, is_float(n->dtype) ? number(static_cast<double>(lanes), n->dtype) : value(constant(lanes, n->dtype))});
}

}  // namespace smelt
