#include "schedule/lower.h"

#include "base/ensure.h"
#include "graph/matrix_shape.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

Ref flatten(const Shape& shape, const Refs& index, size_t begin, size_t end) {
  Ref flat = constant(0);
  for (size_t i = begin; i < end; ++i) flat = simplify(flat * shape[i] + index[i]);
  return flat;
}

void unflatten(const Shape& shape, Ref flat, size_t begin, size_t end, Refs& out) {
  Refs reversed;
  for (size_t i = end; i-- > begin;) {
    const bool outermost = i == begin;
    reversed.push_back(outermost ? flat : simplify(flat % shape[i]));
    if (!outermost) flat = simplify(flat / shape[i]);
  }
  out.insert(out.end(), reversed.rbegin(), reversed.rend());
}

// A reshape works on groups of axes with equal products: [T, 5120] -> [T, 20, 256] touches only the second axis.
Refs reshape_index(const Shape& from, const Shape& to, const Refs& index) {
  Refs out;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t i0 = i, j0 = j;
    Ref a = constant(1), b = constant(1);
    do {
      const auto ca = const_int(a), cb = const_int(b);
      const bool take_from =
          j == to.size() || (i < from.size() && (i == i0 || (ca && cb && *ca < *cb) || (!cb && j > j0)));
      if (take_from)
        a = simplify(a * from[i++]);
      else
        b = simplify(b * to[j++]);
    } while (a != b && (i < from.size() || j < to.size()));
    unflatten(from, flatten(to, index, j0, j), i0, i, out);
  }
  return out;
}

}  // namespace

Ref written_buffer(Ref write) {
  while (write->op == Op::Write) write = WriteView(write).buffer;
  return write;
}

OutputLoops output_loops(const Shape& shape) {
  OutputLoops loops;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool single = is_const(shape[axis], 1);
    loops.index.push_back(single ? constant(0)
                                 : make_range(output_range(static_cast<int64_t>(axis)), shape[axis], RangeKind::Loop));
    if (!single) loops.ranges.push_back(loops.index.back());
  }
  return loops;
}

Ref byte_offset(const Shape& shape, const Refs& index, DType dtype) {
  return simplify(flatten(shape, index, 0, shape.size()) * size_of(dtype));
}

Ref element_count(const Shape& shape) {
  Ref n = constant(1);
  for (Ref d : shape) n = simplify(n * d);
  return n;
}

int Lowering::height(Ref tensor) {
  if (auto it = heights_.find(tensor.get()); it != heights_.end()) return it->second;
  int h = 0;
  for (Ref s : tensor->src)
    if (!is_placed(s)) h = std::max(h, height(s));
  if (is_reduce(tensor->op)) ++h;
  return heights_[tensor.get()] = h;
}

Ref Lowering::at(Ref tensor, const Refs& index) {
  if (auto it = places_.find(tensor.get()); it != places_.end())
    return make_load(tensor->dtype, it->second.buffer, offset_in(it->second, tensor, index));
  std::vector<const Node*> key;
  for (Ref i : index) key.push_back(i.get());
  const auto memo_key = std::make_pair(tensor.get(), std::move(key));
  if (auto it = memo_.find(memo_key); it != memo_.end()) return it->second;
  const Ref value = compute(tensor, index);
  memo_.emplace(memo_key, value);
  return value;
}

namespace {

// Eights of columns, what is between the axes, and of 16 elements as graph/matrix_shape.h has them: eights, columns,
// quads, pairs.
void turn_into_cores(Shape& shape, Refs& index) {
  size_t first = 0, last = shape.size() - 1;
  while (is_const(shape[first], 1)) ++first;
  while (is_const(shape[last], 1)) --last;
  const Ref column = index[first], element = index[last];
  const auto append = [&](int64_t size, Ref i) {
    shape.push_back(constant(size));
    index.push_back(simplify(i % size));
  };
  shape[first] = simplify(shape[first] / kFragmentGroups), index[first] = simplify(column / kFragmentGroups);
  shape[last] = simplify(shape[last] / kHalvesOfStep), index[last] = simplify(element / kHalvesOfStep);
  append(kQuad / kPair, element);
  append(kFragmentGroups, column);
  append(kFragmentPlaces, element / kQuad);
  append(kPair, element / (kQuad / kPair));
}

}  // namespace

Ref Lowering::offset_in(const Place& place, Ref tensor, const Refs& index) const {
  if (place.extents.empty()) return byte_offset(tensor->shape, index, tensor->dtype);
  Shape shape;
  Refs inner;
  Ref padded;  // index of the first axis that counts
  for (size_t k = 0; k < index.size(); ++k) {
    const int64_t n = place.extents[k];
    shape.push_back(constant(n));
    inner.push_back(is_const(tensor->shape[k], n) ? index[k] : simplify(index[k] % n));
    if (!padded && n > 1) padded = inner.back();
  }
  if (place.in_cores) turn_into_cores(shape, inner);
  const Ref offset = byte_offset(shape, inner, tensor->dtype);
  return place.padding > 0 && padded ? simplify(offset + padded * place.padding) : offset;
}

Ref Lowering::compute(Ref t, const Refs& index) {
  const auto source = [&](int i) { return t->src[i]; };
  switch (t->op) {
    case Op::Const:
    case Op::Var: return t;
    case Op::Param: return make_load(t->dtype, t, byte_offset(t->shape, index, t->dtype));
    case Op::Place: return at(source(0), index);
    case Op::Iota: return index[axis_of(t)];
    case Op::Write: return make_load(t->dtype, written_buffer(t), byte_offset(t->shape, index, t->dtype));
    case Op::Reshape: return at(source(0), reshape_index(source(0)->shape, t->shape, index));
    case Op::Permute: {
      Refs inner(index.size());
      for (size_t k = 0; k < index.size(); ++k) inner[permutation_of(t)[k]] = index[k];
      return at(source(0), inner);
    }
    case Op::Expand: {
      Refs inner = index;
      for (size_t k = 0; k < index.size(); ++k)
        if (is_const(source(0)->shape[k], 1)) inner[k] = constant(0);
      return at(source(0), inner);
    }
    case Op::Shrink: {
      Refs inner = index;
      for (size_t k = 0; k < index.size(); ++k) inner[k] = simplify(index[k] + begins_of(t)[k]);
      return at(source(0), inner);
    }
    case Op::Flip: {
      Refs inner = index;
      inner[axis_of(t)] = simplify(t->shape[axis_of(t)] - constant(1) - index[axis_of(t)]);
      return at(source(0), inner);
    }
    case Op::Gather: {
      const size_t row_axes = source(1)->shape.size();
      const Ref row = at(source(1), Refs(index.begin(), index.begin() + row_axes));
      Refs inner{simplify(cast(row, DType::I64))};
      inner.insert(inner.end(), index.begin() + row_axes, index.end());
      return at(source(0), inner);
    }
    case Op::Bitcast: return reinterpret(t, index);
    default: break;
  }
  if (is_reduce(t->op)) return reduction(t, index);
  ENSURE(is_elementwise(t->op), std::string("cannot lower ") + std::string(name_of(t->op)));
  Refs src;
  for (Ref s : t->src) src.push_back(at(s, s->shape.empty() ? Refs{} : index));
  return simplify(make(t->op, t->dtype, std::move(src), t->arg));
}

// Bytes of a buffer read as another type: the load of the first byte becomes the load of the element.
Ref Lowering::reinterpret(Ref t, const Refs& index) {
  const Ref from = operand_of(t);
  const int ratio = size_of(t->dtype) / size_of(from->dtype);
  ENSURE(ratio >= 1, "bitcast to a smaller type of a tensor");
  Refs inner = index;
  inner.back() = simplify(index.back() * ratio);
  const Ref byte = at(from, inner);
  if (ratio == 1 && byte->op != Op::Load) return bitcast(byte, t->dtype);
  ENSURE(byte->op == Op::Load, "bitcast of computed bytes");
  return make_load(t->dtype, LoadView(byte).buffer, LoadView(byte).offset);
}

Ref Lowering::reduction(Ref t, const Refs& index) {
  const int64_t axis = reduced_axes(t)[0];
  const Ref size = reduced_tensor(t)->shape[axis];
  // Numbered by how many reductions lie below. Two reductions of equal height never nest, so they may share a range:
  // sibling sums over one axis become one loop, and common subexpressions meet.
  const Ref range = make_range(reduce_range(height(t)), size, RangeKind::Reduce);
  Refs inner = index;
  if (t->op == Op::TopK)
    inner[axis] = range;
  else
    inner.insert(inner.begin() + axis, range);
  Refs src;
  for (Ref s : t->src) src.push_back(at(s, inner));
  src.push_back(range);
  if (t->op != Op::TopK) return make(t->op, t->dtype, std::move(src));

  const Ref best = make(Op::TopK, DType::I32, std::move(src), {.i = top_count(t)});
  const auto item = [&](int64_t j) { return make(Op::TopKLane, DType::I32, {best}, {.i = j}); };
  Ref value = item(top_count(t) - 1);
  for (int64_t j = top_count(t) - 1; j-- > 0;) value = where(binary(Op::Eq, index[axis], constant(j)), item(j), value);
  return simplify(value);
}

Ref Lowering::store(Ref tensor, Ref buffer) {
  const OutputLoops loops = output_loops(tensor->shape);
  const auto placed = places_.find(tensor.get());
  const Place place = placed != places_.end() && placed->second.buffer == buffer ? placed->second : Place{buffer, {}};
  const Ref offset = offset_in(place, tensor, loops.index);
  return make_store(buffer, offset, compute(tensor, loops.index), loops.ranges);
}

Ref Lowering::store_rows(Ref write) {
  const auto [buffer, rows, values] = WriteView(write);
  const OutputLoops loops = output_loops(values->shape);
  const Ref row = simplify(cast(at(rows, {loops.index[0]}), DType::I64));
  const Ref column = simplify(loops.index[1] + first_column(write));
  const Ref offset = byte_offset(write->shape, {row, column}, values->dtype);
  return make_store(written_buffer(buffer), offset, at(values, loops.index), loops.ranges);
}

}  // namespace smelt
