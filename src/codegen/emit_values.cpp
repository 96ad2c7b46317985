#include <algorithm>

#include "base/ensure.h"
#include "codegen/nest_emitter.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kStreamedBytes = 1 << 18;  // what is larger does not stay in a cache
constexpr int64_t kTileAhead = 32768;        // bytes from a read to what is asked for: in a tile,
constexpr int64_t kSharedAhead = 6144;       // and where several outputs share what is read

}  // namespace

Value NestEmitter::alu(Op op, DType dtype, const std::vector<Value>& src, Arg arg) {
  Instruction out{.kind = Inst::Value, .op = op, .dtype = dtype, .arg = std::move(arg)};
  Value v{.depth = 0};
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

// Values of equal structure, such as the copies that UPCAST makes, step by step side by side: what they share, an
// unpacked word of weights say, is used by all of them while it is in a register.
void NestEmitter::compute_together(Refs nodes) {
  std::erase_if(nodes, [&](Ref n) { return values_.contains(n.get()); });
  if (nodes.size() > 1 && std::all_of(nodes.begin(), nodes.end(), [&](Ref n) {
        return is_elementwise(n->op) && n->op == nodes[0]->op;
      }))
    for (size_t i = 0; i < nodes[0]->src.size(); ++i) {
      Refs operands;
      for (Ref n : nodes) operands.push_back(n->src[i]);
      compute_together(std::move(operands));
    }
  for (Ref n : nodes) value(n);
}

Value NestEmitter::compute(Ref n) {
  switch (n->op) {
    case Op::Const:
      return {add(0, {.kind = Inst::Value, .op = Op::Const, .dtype = n->dtype, .arg = n->arg}), 0,
              1};
    case Op::Var: return symbol(n->arg.name);
    case Op::Param: return {add(0, {.kind = Inst::Buffer, .arg = {.i = n->arg.i}}), 0, 1};
    case Op::Local: return local(n);
    case Op::Range: return lane_index(n);
    case Op::Load: return load(n);
    case Op::LaneReduce: return lane_reduce(n);
    case Op::MatrixDot: return matrix_dot(n);
    case Op::MatrixRow: return matrix_row(n);
    case Op::TopKLane: value(n->src[0]); return topk_items_.at({n->src[0].get(), n->arg.i});
    default: break;
  }
  ENSURE(is_elementwise(n->op), std::string("cannot linearize ") + std::string(name_of(n->op)));
  std::vector<Value> src;
  for (Ref s : n->src) src.push_back(value(s));
  return alu(n->op, n->dtype, src, n->arg);
}

Value NestEmitter::symbol(const std::string& name) {
  auto it = std::find(symbols_.begin(), symbols_.end(), name);
  const int64_t position = it - symbols_.begin();
  if (it == symbols_.end()) symbols_.push_back(name);
  return {add(0, {.kind = Inst::Symbol, .dtype = DType::I64, .arg = {.i = position}}), 0, 1};
}

Value NestEmitter::local(Ref n) {
  if (!scratch_.contains(n->arg.i)) {
    scratch_[n->arg.i] = scratch_bytes_;
    scratch_bytes_ += (n->arg.list[0] + 63) / 64 * 64 + 64;
  }
  return {add(0, {.kind = Inst::Scratch, .arg = {.i = scratch_[n->arg.i]}}), 0, 1};
}

Value NestEmitter::lane_index(Ref range) {
  ENSURE(kind_of(range) == RangeKind::Lane, "a range without a loop around it");
  const int lanes = facts_.lanes(range);
  return {add(0, {.kind = Inst::LaneIndex, .dtype = DType::I64, .lanes = lanes}), 0, lanes};
}

Value NestEmitter::load(Ref n) {
  Ref offset = n->src[1];
  int lanes = facts_.lanes(offset);
  if (lanes > 1)
    for (const Node* r : facts_.free_ranges(offset)) {
      const Ref range(r);
      if (kind_of(range) != RangeKind::Lane || stride(offset, range) != size_of(n->dtype)) continue;
      offset = substitute(offset, {{range, constant(0)}});
      break;
    }
  const Value pointer = value(n->src[0]), at = value(offset);
  // What a nest of the tile has written is not there before.
  const int written = written_.contains(n->src[0].get()) ? floor_ : 0;
  const int depth = std::max({pointer.depth, at.depth, written});
  const bool is_vector = lanes > 1 && at.lanes == 1 && is_from_memory(n);
  const int64_t ahead = is_vector && depth > 0 ? bytes_ahead(n, offset, depth) : 0;
  if (ahead) prefetch(pointer, at, ahead);
  Instruction out{
      .kind = Inst::Load, .dtype = n->dtype, .lanes = lanes, .src = {pointer.id, at.id}};
  out.arg.i = is_vector && !is_tile() && is_word(n);
  return {add(depth, std::move(out)), depth, lanes};
}

// Weights lie in the order in which loops use them (see WeightLayout), and prefetchers see by themselves that lines
// follow each other, if loads stay in this order: hints would cost a tenth to a third. A tile computes for long
// between reads, and prefetchers give up: it asks ahead of time. So do several outputs that share what is read: their
// arithmetic fills the window in which the processor looks ahead, and the next block is met too late (measured: Q4_0
// for 8 tokens from 217 to 350 GOP/s a core).
int64_t NestEmitter::bytes_ahead(Ref load, Ref offset, int depth) {
  if (!is_tile()) return shared_.contains(load.get()) ? kSharedAhead : 0;
  if (is_in_reduction(offset)) return kTileAhead;
  // Read once for an output, whose sum takes long: what the next one reads.
  for (const Node* r : facts_.free_ranges(offset))
    if (const auto it = values_.find(r); it != values_.end() && it->second.depth == depth)
      return stride(offset, Ref(r)).value_or(0);
  return 0;
}

bool NestEmitter::is_in_reduction(Ref offset) {
  const RangeSet& ranges = facts_.free_ranges(offset);
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const Node* r) { return kind_of(Ref(r)) == RangeKind::Reduce; });
}

// Loads that more than one output makes use of.
void NestEmitter::find_shared(const Refs& stores) {
  shared_.clear();
  std::set<const Node*> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Load && !seen.insert(n.get()).second) shared_.insert(n.get());
}

bool NestEmitter::is_from_memory(Ref load) const {
  return load->src[0]->op == Op::Param && load->src[1]->max >= kStreamedBytes;
}

bool NestEmitter::is_tile() const { return nests_.size() > 1; }

bool NestEmitter::is_word(Ref load) { return is_int(load->dtype) && size_of(load->dtype) == 4; }

void NestEmitter::prefetch(Value pointer, Value at, int64_t bytes) {
  add(std::max(pointer.depth, at.depth),
      {.kind = Inst::Prefetch, .src = {pointer.id, at.id}, .arg = {.i = bytes}});
}

Value NestEmitter::matrix_dot(Ref n) {
  Instruction out{.kind = Inst::MatrixDot,
                  .dtype = DType::I32,
                  .lanes = static_cast<int>(matrix_shape(n->arg.list).lanes),
                  .arg = n->arg};
  int depth = 0;
  for (Ref s : n->src) {
    const Value v = value(s);
    out.src.push_back(v.id);
    depth = std::max({depth, v.depth, written_.contains(s.get()) ? floor_ : 0});
  }
  const int lanes = out.lanes;
  return {add(depth, std::move(out)), depth, lanes};
}

Value NestEmitter::matrix_row(Ref n) {
  const Value product = value(n->src[0]);
  const auto row = const_int(n->src[2]);
  ENSURE(row, "the rows of a matrix are not written out");
  return {add(product.depth, {.kind = Inst::MatrixRow,
                              .dtype = DType::I32,
                              .lanes = product.lanes,
                              .src = {product.id},
                              .arg = {.i = *row}}),
          product.depth, product.lanes};
}

Value NestEmitter::lane_reduce(Ref n) {
  const Value x = value(n->src[0]);
  const Op op = static_cast<Op>(n->arg.i);
  if (x.lanes > 1)
    return {add(x.depth, {.kind = Inst::LaneReduce, .op = op, .dtype = n->dtype, .src = {x.id}}),
            x.depth, 1};
  if (op == Op::ReduceMax) return x;
  const int64_t lanes = n->src[1]->src[0]->arg.i;
  return alu(Op::Mul, n->dtype,
             {x, is_float(n->dtype) ? number(static_cast<double>(lanes), n->dtype)
                                    : value(constant(lanes, n->dtype))});
}

}  // namespace smelt
