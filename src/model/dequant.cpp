#include "model/dequant.h"

#include "base/ensure.h"
#include "model/block_groups.h"
#include "model/interleave.h"
#include "model/packed_block.h"

namespace smelt {
namespace {

std::vector<BlockField> with_offsets(std::vector<BlockField> fields) {
  int offset = 0;
  for (BlockField& field : fields) {
    field.offset = offset;
    offset += field.count * size_of(field.dtype);
  }
  return fields;
}

}  // namespace

const std::vector<BlockField>& block_fields(GgufType type) {
  switch (static_cast<uint32_t>(type)) {
#define FIELD(dtype, name, count) BlockField{#name, DType::dtype, count, 0},
#define QUANT(name, fields)                                             \
  case static_cast<uint32_t>(GgufType::name): {                         \
    static const std::vector<BlockField> list = with_offsets({fields}); \
    return list;                                                        \
  }
#include "gguf/quants.def"
#undef QUANT
#undef FIELD
  }
  ENSURE(false, "no layout for " + std::string(name_of(type)));
}

bool is_plain(GgufType type) { return info_of(type).elements == 1; }

bool has_superblocks(GgufType type) { return info_of(type).elements > 64; }

int piece_of(int bytes, int wanted) {
  if (bytes % wanted == 0) return wanted;
  return bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

bool can_interleave(GgufType type, int64_t rows, int interleave) { return !is_plain(type) && rows % interleave == 0; }

bool can_split(int64_t rows, int interleave, int run) { return rows % run == 0 && run % (2 * interleave) == 0; }

namespace {

// Words of a block that lie at equal distances in the file and in the packed block.
struct Run {
  int piece, words;
  int64_t from, to, to_stride;
};

std::vector<Run> runs_of(GgufType type, WeightLayout layout) {
  const int64_t interleave = layout.interleave;
  std::vector<Run> runs;
  for (const PackedField& p : packed_fields(type, layout.order, layout.piece)) {
    const int piece = p.piece, pieces = p.pieces();
    for (int s = 0; s < p.sections; ++s) {
      const int64_t from = p.field.offset + int64_t{s} * pieces * piece, to = p.begin + int64_t{s} * p.stride;
      if (p.pairs > 0)
        runs.push_back(
            {piece, p.pairs, from, (to + p.pairs_at + (p.is_second ? piece : 0)) * interleave, 2 * piece * interleave});
      if (p.pairs < pieces)
        runs.push_back(
            {piece, pieces - p.pairs, from + p.pairs * piece, (to + p.rest_at) * interleave, piece * interleave});
    }
  }
  return runs;
}

// Where the rows of a group lie in the file: `step` rows from one to the next.
struct RowsOfGroup {
  int64_t first, step;
};

// `group`: how many rows lie before it. WeightLayout::split.
RowsOfGroup rows_of_group(int64_t group, int split) {
  if (split == 0) return {group, 1};
  const int64_t place = group % split, half = split / 2;
  return {group - place + place % half * 2 + place / half, 2};
}

}  // namespace

void interleave_rows(GgufType type, WeightLayout layout, int64_t rows, int64_t blocks, const std::byte* from,
                     std::byte* to) {
  const int interleave = layout.interleave;
  const std::vector<Run> runs = runs_of(type, layout);
  const auto block_bytes = static_cast<int64_t>(info_of(type).bytes), row_bytes = blocks * block_bytes;
  for (int64_t group = 0; group < rows; group += interleave) {
    const RowsOfGroup of = rows_of_group(group, layout.split);
    const std::byte* first = from + of.first * row_bytes;
    for (int64_t b = 0; b < blocks; ++b, to += interleave * block_bytes)
      for (const Run& run : runs)
        interleave_words(run.piece, first + b * block_bytes + run.from, of.step * row_bytes, interleave, run.words,
                         to + run.to, run.to_stride);
  }
}

Tensor raw_weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name, WeightLayout layout) {
  const GgufTypeInfo& info = info_of(type);
  ENSURE(k > 0 && k % info.elements == 0, name + ": rows are not whole blocks");
  std::vector<Dim> shape = std::move(rows);
  if (layout.is_packed()) {
    const int64_t n = *const_int(shape.back().ref);
    ENSURE(can_interleave(type, n, layout.interleave), name + ": rows cannot be interleaved");
    shape.back() = Dim(n / layout.interleave);
  }
  shape.push_back(k / info.elements);
  if (is_plain(type)) return given_param(slot, block_fields(type)[0].dtype, std::move(shape), std::move(name));
  shape.push_back(static_cast<int64_t>(info.bytes) * layout.interleave);
  return given_param(slot, DType::U8, std::move(shape), std::move(name));
}

Tensor dequantize(Tensor raw, GgufType type, WeightLayout layout) {
  const Grouped w = groups_of(raw, type, layout);
  if (is_plain(type)) return with_last_axes(w.q, 2, {w.q.size(-1)});
  const auto per_group = [](Tensor x) { return unsqueeze(x, x.rank()); };
  Tensor values = cast(w.q, DType::F32);
  if (w.zero) values = values - static_cast<double>(w.zero);
  values = per_group(w.scale) * values;
  if (w.minimum.ref()) values = values - per_group(w.minimum);
  return with_last_axes(values, 3, {values.size(-3) * values.size(-2) * values.size(-1)});
}

Tensor weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name, WeightLayout layout) {
  return dequantize(raw_weight(slot, type, std::move(rows), k, std::move(name), layout), type, layout);
}

}  // namespace smelt
