#include "model/attention.h"

#include <limits>

#include "graph/rules_algebra.h"
#include "model/block_groups.h"
#include "model/byte_cache.h"
#include "model/product.h"

namespace smelt {
namespace {

// i32 [T]: where the sequence of each token begins in the page table.
Tensor tables_of_tokens(Block& b) {
  const ModelShape& s = b.shape;
  if (!s.many_tokens) return b.slots.input(Bound::Tables, DType::I32, {s.tokens}, "tables");
  const Dim groups = simplify(s.tokens.ref / kGroupSize);
  const Tensor of_group = b.slots.input(Bound::Tables, DType::I32, {groups}, "tables");
  return reshape(expand(unsqueeze(of_group, 1), {groups, kGroupSize}), {s.tokens});
}

}  // namespace

Positions positions(Block& b, int64_t rope_width, const std::string& tables) {
  const ModelShape& s = b.shape;
  auto i64 = [](Tensor x) { return cast(x, DType::I64); };
  const Tensor position = i64(b.slots.input(Bound::Positions, DType::I32, {s.tokens}, "positions"));
  const Tensor table = i64(tables_of_tokens(b));
  const Tensor pages = b.slots.input(Bound::Pages, DType::I32, {s.page_entries}, "pages");
  auto cache_row = [&](Tensor table, Tensor position) {
    return i64(gather(pages, table + position / double(kPageSize))) * double(kPageSize) + position % kPageSize;
  };
  const Tensor context = iota({times(s.chunks, kChunkSize)}, 0);
  auto of_position = [&](const std::string& name) {
    const int slot = b.slots.add({.kind = Bound::PositionTable, .name = name + tables});
    return gather(param(slot, DType::F32, {s.context, rope_width / 2}, name), position);
  };
  return {
      .of_token = position,
      .row = cache_row(table, position),
      .context = context,
      .rows = cache_row(unsqueeze(table, 1), context),
      .angles = {.cos = of_position("cos"), .sin = of_position("sin")},
  };
}

Tensor cache_part(Block& b, const char* name, DType type, int64_t width) {
  const int slot = b.slots.add({.kind = Bound::Cache, .name = name});
  return param(slot, type, {b.shape.cache_rows, width}, name);
}

Tensor causal(Tensor score, const Positions& at, int64_t window) {
  const Tensor own = unsqueeze(at.of_token, 1), context = unsqueeze(at.context, 0);
  Tensor unseen = less(own, context);  // [T, S]
  if (window) unseen = unseen | less(context + double(window - 1), own);
  while (unseen.rank() < score.rank()) unseen = unsqueeze(unseen, 1);
  return where(unseen, scalar(std::numeric_limits<float>::lowest()), score);
}

namespace {

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

}  // namespace

Tensor scores_of_bytes(Block& b, Tensor x, Tensor q, Tensor scale) {
  const auto i32 = [](Tensor v) { return cast(v, DType::I32); };
  const int last = x.rank() - 1;
  if (const Activations in = quantise_activations(x, b.layout(), b.blocks()); in.sums.ref())
    return scores_of_blocks(in, q, scale);
  const ActivationLayout layout = b.layout();
  const ByteRows in = to_bytes(x, layout);
  const Tensor total = sum(i32(in.q), -1) * kKeyZero, zeros = layout.rows > 1 ? place_rows(total, layout) : total;
  const Tensor products = sum(i32(unsqueeze(in.q, last)) * i32(q), -1);
  return cast(products - unsqueeze(zeros, last), DType::F32) * unsqueeze(in.scale, last) * scale;
}

}  // namespace smelt
