#include "model/attention.h"

#include <limits>

#include "graph/constants.h"
#include "graph/rules_algebra.h"
#include "model/block_groups.h"
#include "model/byte_cache.h"
#include "model/product.h"

namespace smelt {
namespace {

// i32 [T]: where the sequence of each token begins in the page table.
Tensor tables_of_tokens(Block& b) {
  const ModelShape& s = b.shape;
  if (!s.many_tokens) return b.slots.given(Bound::Tables, DType::I32, {s.tokens}, "tables");
  const Dim groups = simplify(s.tokens.ref / kGroupSize);
  const Tensor of_group = b.slots.given(Bound::Tables, DType::I32, {groups}, "tables");
  return reshape(expand(unsqueeze(of_group, 1), {groups, kGroupSize}), {s.tokens});
}

// The position of the first token of each token's group, which is the lowest one there: i64 [T].
Tensor first_of_group(const ModelShape& s, Tensor position) {
  if (!s.many_tokens) return position;
  const Dim groups = simplify(s.tokens.ref / kGroupSize);
  const Tensor first = slice(reshape(position, {groups, kGroupSize}), 1, 0, 1);
  return reshape(expand(first, {groups, kGroupSize}), {s.tokens});
}

// Chunks that `positions` neighbours have a part in, wherever they begin.
constexpr int64_t most_chunks(int64_t positions, int64_t chunk) { return (positions - 2 + chunk) / chunk + 1; }

// Which positions attention reads, and where these are in the sequence's page table.
struct Context {
  Tensor position;  // i64 [T or 1, S]
  Tensor in_table;  // the same, but that it is never behind the last chunk; what differs is masked
};

Context whole_context(const ModelShape& s) {
  const Tensor all = unsqueeze(iota({times(s.chunks, s.chunk)}, 0), 0);
  return {all, all};
}

// With a window a token reads from the chunk on in which the window of its group begins: as many chunks as the windows
// of a group may touch. Chunks are those of the whole context, so what a token reads of each does not depend on its
// group; those before its own window count nothing. Not before first_read(), for each group.
Context context_of(const ModelShape& s, Tensor position, int64_t window) {
  if (!window || s.chunks.ref->max * s.chunk <= window) return whole_context(s);
  const int64_t most = most_chunks(window + (s.many_tokens ? kGroupSize - 1 : 0), s.chunk);
  const auto size = static_cast<double>(s.chunk);
  const Tensor first_seen = maximum(first_of_group(s, position) - double(window - 1), scalar(0, DType::I64));
  const Tensor first = unsqueeze(first_seen / size, 1);  // [T, 1]
  const Dim read = simplify(binary(Op::Min, s.chunks.ref, constant(most)));
  const Tensor along = unsqueeze(iota({times(read, s.chunk)}, 0), 0);  // [1, S]
  const Tensor chunk = first + along / size, within = along % s.chunk;
  const Tensor there = minimum(chunk, Tensor(s.chunks.ref) - 1.0);
  return {chunk * size + within, there * size + within};
}

}  // namespace

int64_t first_read(int64_t position, int64_t window) {
  return window == 0 || position < window ? 0 : (position - window + 1) / kChunkSize * kChunkSize;
}

Positions positions(Block& b, int64_t rope_width, const std::string& tables, int64_t window) {
  const ModelShape& s = b.shape;
  auto i64 = [](Tensor x) { return cast(x, DType::I64); };
  const Tensor position = i64(b.slots.given(Bound::Positions, DType::I32, {s.tokens}, "positions"));
  const Tensor table = i64(tables_of_tokens(b));
  const Tensor pages = b.slots.given(window ? Bound::LocalPages : Bound::Pages, DType::I32, {s.page_entries}, "pages");
  auto cache_row = [&](Tensor table, Tensor position) {
    return i64(gather(pages, table + position / double(kPageSize))) * double(kPageSize) + position % kPageSize;
  };
  const Context context = context_of(s, position, window);
  auto of_position = [&](const std::string& name) {
    const int slot = b.slots.add({.kind = Bound::PositionTable, .name = name + tables});
    return gather(given_param(slot, DType::F32, {s.context, rope_width / 2}, name), position);
  };
  return {
      .of_token = position,
      .row = cache_row(table, position),
      .context = context.position,
      .rows = cache_row(unsqueeze(table, 1), context.in_table),
      .angles = {.cos = of_position("cos"), .sin = of_position("sin")},
      .cache_rows = window ? s.local_rows : s.cache_rows,
      .window = window,
  };
}

Tensor cache_part(Block& b, const Positions& at, const char* name, DType type, int64_t width) {
  const int slot = b.slots.add({.kind = Bound::Cache, .name = name});
  return param(slot, type, {at.cache_rows, width}, name);
}

Tensor causal(Tensor score, const Positions& at) {
  const Tensor own = unsqueeze(at.of_token, 1);
  Tensor unseen = less(own, at.context);  // [T, S]
  if (at.window) unseen = unseen | less(at.context + double(at.window - 1), own);
  while (unseen.rank() < score.rank()) unseen = unsqueeze(unseen, 1);
  return where(unseen, scalar(std::numeric_limits<float>::lowest()), score);
}

namespace {

// x [..., H, n] with `heads` heads: those behind the last one are that one.
Tensor with_heads(Tensor x, int axis, int64_t heads) {
  const int64_t own = x.size(axis);
  if (own == heads) return x;
  const auto dims = x.shape();
  std::vector<Dim> index(dims.begin(), dims.begin() + axis + 1), flat(dims.begin() + axis, dims.end());
  int64_t rows = 1;
  for (int k = 0; k < axis; ++k) rows *= x.size(k);
  flat[0] = Dim(rows * own);
  index[static_cast<size_t>(axis)] = Dim(heads);
  const Tensor head = minimum(iota({rows, heads}, 1), scalar(static_cast<double>(own - 1), DType::I64));
  return gather(reshape(x, flat), reshape(iota({rows, heads}, 0) * static_cast<double>(own) + head, index));
}

Activations with_heads(const Activations& x, int axis, int64_t heads) {
  const auto each = [&](Tensor v) { return v.ref() ? with_heads(v, axis, heads) : v; };
  return {each(x.x), each(x.q), each(x.scale), each(x.sums), x.layout, x.wide};
}

// Of short blocks of x, each with a scale, as the tasks make them that make x.
Tensor scores_of_blocks(const Activations& x, Tensor q, Tensor scale) {
  const auto i32 = [](Tensor v) { return cast(v, DType::I32); };
  const int64_t n = q.size(-1), blocks = x.scale.size(-1);
  const int last = x.x.rank() - 1;
  const auto in_blocks = [&](Tensor v) { return with_last_axes(v, 1, {blocks, n / blocks}); };
  const Tensor products = sum(i32(unsqueeze(in_blocks(x.q), last)) * i32(in_blocks(q)), -1);
  const Tensor of_block = cast(products - unsqueeze(x.sums * kKeyZero, last), DType::F32);
  return sum(of_block * unsqueeze(x.scale, last), -1) * scale;
}

// Of halves, which the task keeps on chip for all that it multiplies them with. Bytes are halves as they are.
Tensor scores_of_halves(const Block& b, Tensor x, Tensor q, Tensor scale) {
  const auto f32 = [](Tensor v) { return cast(v, DType::F32); };
  const int axis = x.rank() - 2;
  const Tensor stored = place(cast(x, DType::BF16)),
               columns = place(with_heads(stored, axis, b.heads_computed(x.size(axis))));
  const Tensor keys = cast(f32(q) - kKeyZero, DType::BF16);
  return sum(unsqueeze(f32(columns), x.rank() - 1) * f32(keys), -1) * scale;
}

}  // namespace

Tensor scores_of_bytes(Block& b, Tensor x, Tensor q, Tensor scale) {
  if (b.attends_by_halves(x.size(x.rank() - 2))) return scores_of_halves(b, x, q, scale);
  const auto i32 = [](Tensor v) { return cast(v, DType::I32); };
  const int last = x.rank() - 1;
  const ActivationLayout layout = b.layout_of_queries(last - 1, x.size(last - 1));
  const int64_t heads = b.heads_computed(x.size(last - 1));
  if (const Activations in = quantise_activations(x, layout, b.blocks()); in.sums.ref())
    return scores_of_blocks(with_heads(in, last - 1, heads), q, scale);
  const ByteRows rows = to_bytes(x, layout);
  const ByteRows in{with_heads(rows.q, last - 1, heads), with_heads(rows.scale, last - 1, heads)};
  const Tensor total = sum(i32(in.q), -1) * kKeyZero, zeros = layout.rows > 1 ? place_numbers(total, layout) : total;
  const Tensor products = sum(i32(unsqueeze(in.q, last)) * i32(q), -1);
  return cast(products - unsqueeze(zeros, last), DType::F32) * unsqueeze(in.scale, last) * scale;
}

}  // namespace smelt
