#include "model/dequant.h"

#include <algorithm>
#include <cstring>

#include "base/ensure.h"
#include "model/interleave.h"
#include "model/packed_block.h"

namespace smelt {
namespace {

// --- pieces of formulas. Shapes show the axes of one block; those in front of them, of rows and
// blocks, stay as they are.

// Replaces the last `axes` axes by those of `to`.
Tensor with_last_axes(Tensor x, int axes, std::vector<int64_t> to) {
  std::vector<Dim> shape;
  for (int i = 0; i < x.rank() - axes; ++i) shape.push_back(x.dim(i));
  shape.insert(shape.end(), to.begin(), to.end());
  return reshape(x, std::move(shape));
}

// [n] -> [groups, n / groups]
Tensor split(Tensor x, int64_t groups) {
  return with_last_axes(x, 1, {groups, x.size(-1) / groups});
}

// [a, b] -> [a * b]
Tensor join(Tensor x) { return with_last_axes(x, 2, {x.size(-2) * x.size(-1)}); }

// 0, step, 2 step ... along the first of two axes, for shifting: [n, 1].
Tensor shifts(int64_t n, int64_t step, DType dtype) {
  return cast(iota({n, 1}, 0) * static_cast<double>(step), dtype);
}

// The fields of `bits` bits of every byte, lowest first. They go in front of the bytes, because in
// all formats the fields of a byte are a run of bytes apart: [n] -> [8 / bits, n].
Tensor unpack(Tensor bytes, int bits) {
  const Tensor fields = with_last_axes(bytes, 1, {1, bytes.size(-1)});
  return (fields >> shifts(8 / bits, bits, DType::U8)) & ((1 << bits) - 1);
}

// The same for one wide integer, of which `n` fields are used: [1] -> [n].
Tensor unpack_word(Tensor word, int bits, int64_t n) {
  const Tensor fields = (split(word, 1) >> shifts(n, bits, word.dtype())) & ((1 << bits) - 1);
  return cast(join(fields), DType::U8);
}

// Low nibbles of all bytes, then their high nibbles: [n] -> [2 n].
Tensor nibbles(Tensor bytes) { return join(unpack(bytes, 4)); }

// x, then y: [n], [n] -> [2 n].
Tensor concatenate(Tensor x, Tensor y) {
  const Tensor first = equal(iota({2, 1}, 0), scalar(0, DType::I64));
  return join(where(first, split(x, 1), split(y, 1)));
}

Tensor f32(Tensor x) { return cast(x, DType::F32); }

// One block's fields by name.
class Block {
 public:
  Block(Tensor raw, GgufType type, WeightLayout layout) : raw_(raw), type_(type), layout_(layout) {}

  // [count] of the field's dtype; a scale or minimum as f32 by f().
  Tensor operator[](std::string_view name) const {
    if (is_plain(type_)) return raw_;
    for (const BlockField& field : block_fields(type_))
      if (field.name == name) return bitcast(bytes_of(field), field.dtype);
    ENSURE(false, "no such field in " + std::string(name_of(type_)));
  }
  Tensor f(std::string_view name) const { return f32((*this)[name]); }

 private:
  // u8 [rows, blocks, bytes of the field], wherever they lie.
  Tensor bytes_of(const BlockField& field) const {
    const int64_t n = layout_.interleave, bytes = field.count * size_of(field.dtype);
    if (n == 1) return slice(raw_, -1, field.offset, bytes);
    const auto& fields = packed_fields(type_, layout_.order);
    const auto place = std::find_if(fields.begin(), fields.end(), [&](const PackedField& p) {
      return p.field.name == field.name;
    });
    const Tensor pieces = pieces_of(*place);
    const int r = pieces.rank();  // [..., groups, blocks, pieces, n, piece]
    std::vector<int> axes;
    for (int i = 0; i < r - 4; ++i) axes.push_back(i);
    axes.insert(axes.end(), {r - 2, r - 4, r - 3, r - 1});
    const Tensor by_row = permute(pieces, axes);  // [..., groups, n, blocks, pieces, piece]
    return with_last_axes(by_row, 5, {by_row.size(-5) * n, by_row.size(-3), bytes});
  }

  // u8 [..., groups, blocks, pieces, n, piece]
  Tensor pieces_of(const PackedField& p) const {
    const int64_t n = layout_.interleave, piece = piece_bytes(p.field), sections = p.sections;
    // [sections, bytes of n rows]: some bytes of each section.
    const auto bytes = [&](int64_t begin, int64_t count) {
      const Tensor all = slice(raw_, -1, p.begin * n, sections * p.stride * n);
      return slice(with_last_axes(all, 1, {sections, p.stride * n}), -1, begin * n, count * n);
    };
    const auto as_pieces = [&](Tensor x) {
      return with_last_axes(x, x.rank() - rank_of_blocks(), {sections * p.pieces(), n, piece});
    };
    if (p.pairs == 0) return as_pieces(bytes(p.rest_at, p.pieces() * piece));
    const Tensor pairs =
        with_last_axes(bytes(p.pairs_at, p.pairs * 2 * piece), 1, {1, p.pairs, 2, n * piece});
    const Tensor paired = slice(pairs, -2, p.is_second, 1);  // [sections, 1, pairs, 1, n * piece]
    if (p.pairs == p.pieces()) return as_pieces(paired);
    // Runs of as many pieces: the first one is there, the others follow each other.
    const int64_t runs = p.pieces() / p.pairs;
    const Tensor rest = with_last_axes(bytes(p.rest_at - p.pairs * piece, p.pieces() * piece), 1,
                                       {runs, p.pairs, 1, n * piece});
    const Tensor first = equal(iota({runs, 1, 1, 1}, 0), scalar(0, DType::I64));
    return as_pieces(where(first, paired, rest));
  }

  int rank_of_blocks() const { return raw_.rank() - 1; }  // [..., groups, blocks]

  Tensor raw_;
  GgufType type_;
  WeightLayout layout_;
};

// The eight 6-bit scales and minima of Q4_K and Q5_K, packed into 12 bytes as 3 x 4: the first four
// scales, the first four minima (two bits above each belong to the last four), the low nibbles of
// the last four of both.
struct SixBit {
  Tensor scales, minima;  // [8]
};
SixBit six_bit(Tensor packed) {
  const Tensor a = slice(packed, -1, 0, 4);
  const Tensor b = slice(packed, -1, 4, 4);
  const Tensor c = slice(packed, -1, 8, 4);
  return {concatenate(a & 63, (c & 15) | ((a >> 6) << 4)),
          concatenate(b & 63, (c >> 4) | ((b >> 6) << 4))};
}

// What every format comes down to: groups of elements that share a scale,
//   value = scale[g] * (q[g, e] - zero) - minimum[g]
// with small integers q (or, for the plain types, the values themselves).
struct Grouped {
  Tensor q;      // [groups, elements], U8, I8 or a float
  Tensor scale;  // f32 [groups]
  int zero = 0;
  Tensor minimum;  // f32 [groups]; none: zero
  // Where minima are multiples of a step of the block, minimum[g] = step * steps[g]:
  Tensor step;   // f32 [1]
  Tensor steps;  // U8 [groups], below 128
};

// All elements of the block share a scale; q [elements].
Grouped one_group(const Block& b, Tensor q, int zero = 0) {
  return {split(q, 1), b.f("d"), zero, {}};
}

Grouped with_steps(Grouped w, Tensor step, Tensor steps) {
  w.minimum = step * f32(steps);
  w.step = step;
  w.steps = steps;
  return w;
}

// Q4_K and Q5_K share the order of their nibbles: byte l of run p holds elements 64 p + l (low) and
// 64 p + 32 + l. -> [8, 32]
Tensor nibbles_of_runs(Tensor qs) { return with_last_axes(unpack(split(qs, 4), 4), 3, {8, 32}); }

// Q2_K and Q3_K share theirs: byte l of half h holds elements 128 h + 32 c + l, c = 0..3. -> [256]
Tensor two_bits_of_halves(Tensor qs) { return with_last_axes(unpack(split(qs, 2), 2), 3, {256}); }

// --- the table of IQ4 formats, and twice the values of FP4 (E2M1; minus zero counts as zero)

Tensor iq4_value(Tensor q) {
  return lut(q, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
             DType::I8);
}
Tensor fp4_value_doubled(Tensor q) {
  return lut(q, {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, DType::I8);
}

// 2^(e - 128) for a byte e, as the bits of an f32; below 2^-126 (e < 2) it is subnormal.
Tensor power_of_two_halved(Tensor e) {
  const Tensor x = cast(e, DType::U32);
  const Tensor two = scalar(2, DType::U32);
  return bitcast(where(less(x, two), (x + 1) << 21, (maximum(x, two) - 1) << 23), DType::F32);
}

// --- one formula a format: the block's fields -> its groups, elements in order

namespace formula {

Grouped F32(const Block& b) { return {split(b.f("value"), 1), {}, 0, {}}; }
Grouped F16(const Block& b) { return F32(b); }
Grouped BF16(const Block& b) { return F32(b); }

Grouped Q4_0(const Block& b) { return one_group(b, nibbles(b["qs"]), 8); }
Grouped Q4_1(const Block& b) { return {split(nibbles(b["qs"]), 1), b.f("d"), 0, -b.f("m")}; }

// The fifth bit of element i is bit i of qh.
Tensor five_bits(const Block& b) { return nibbles(b["qs"]) | (unpack_word(b["qh"], 1, 32) << 4); }
Grouped Q5_0(const Block& b) { return one_group(b, five_bits(b), 16); }
Grouped Q5_1(const Block& b) { return {split(five_bits(b), 1), b.f("d"), 0, -b.f("m")}; }

Grouped Q8_0(const Block& b) { return one_group(b, b["qs"]); }

Grouped Q2_K(const Block& b) {
  const Tensor both = b["scales"];  // [16]: scale in the low nibble, minimum in the high one
  return with_steps({split(two_bits_of_halves(b["qs"]), 16), b.f("d") * f32(both & 15)},
                    b.f("dmin"), both >> 4);
}

Grouped Q3_K(const Block& b) {
  const Tensor low = nibbles(slice(b["scales"], -1, 0, 8));
  const Tensor high = join(unpack(slice(b["scales"], -1, 8, 4), 2));
  const Tensor q = two_bits_of_halves(b["qs"]) | (join(unpack(b["hmask"], 1)) << 2);
  return {split(q, 16), b.f("d") * (f32(low | (high << 4)) - 32.0), 4, {}};
}

Grouped Q4_K(const Block& b) {
  const auto [scales, minima] = six_bit(b["scales"]);
  return with_steps({nibbles_of_runs(b["qs"]), b.f("d") * f32(scales)}, b.f("dmin"), minima);
}

Grouped Q5_K(const Block& b) {
  const auto [scales, minima] = six_bit(b["scales"]);
  return with_steps({nibbles_of_runs(b["qs"]) | (unpack(b["qh"], 1) << 4), b.f("d") * f32(scales)},
                    b.f("dmin"), minima);
}

Grouped Q6_K(const Block& b) {
  const Tensor low = with_last_axes(unpack(split(b["ql"], 2), 4), 3, {256});
  const Tensor high = two_bits_of_halves(b["qh"]);
  return {split(low | (high << 4), 16), b.f("d") * f32(b["scales"]), 32, {}};
}

Grouped IQ4_NL(const Block& b) { return one_group(b, iq4_value(nibbles(b["qs"]))); }

Grouped IQ4_XS(const Block& b) {
  const Tensor low = with_last_axes(unpack(split(b["scales_l"], 4), 4), 3, {8});
  const Tensor high = unpack_word(b["scales_h"], 2, 8);
  const Tensor q = with_last_axes(unpack(split(b["qs"], 8), 4), 3, {256});
  return {split(iq4_value(q), 8), b.f("d") * (f32(low | (high << 4)) - 32.0), 0, {}};
}

Grouped MXFP4(const Block& b) {
  return {split(fp4_value_doubled(nibbles(b["qs"])), 1), power_of_two_halved(b["e"]), 0, {}};
}

}  // namespace formula

Grouped apply_formula(const Block& block, GgufType type) {
  switch (static_cast<uint32_t>(type)) {
#define QUANT(name, fields) \
  case static_cast<uint32_t>(GgufType::name): return formula::name(block);
#include "gguf/quants.def"
#undef QUANT
  }
  ENSURE(false, "no formula for " + std::string(name_of(type)));
}

// A number for each group, against its elements.
Tensor per_group(Tensor x) { return unsqueeze(x, x.rank()); }

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

int piece_bytes(const BlockField& field) {
  const int bytes = field.count * size_of(field.dtype);
  return bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

bool can_interleave(GgufType type, int64_t rows, int interleave) {
  return !is_plain(type) && rows % interleave == 0;
}

namespace {

// Words of a block that lie at equal distances in the file and in the packed block.
struct Run {
  int piece, words;
  int64_t from, to, to_stride;
};

std::vector<Run> runs_of(GgufType type, WeightLayout layout) {
  const int64_t interleave = layout.interleave;
  std::vector<Run> runs;
  for (const PackedField& p : packed_fields(type, layout.order)) {
    const int piece = piece_bytes(p.field), pieces = p.pieces();
    for (int s = 0; s < p.sections; ++s) {
      const int64_t from = p.field.offset + int64_t{s} * pieces * piece,
                    to = p.begin + int64_t{s} * p.stride;
      if (p.pairs > 0)
        runs.push_back({piece, p.pairs, from,
                        (to + p.pairs_at + (p.is_second ? piece : 0)) * interleave,
                        2 * piece * interleave});
      if (p.pairs < pieces)
        runs.push_back({piece, pieces - p.pairs, from + p.pairs * piece,
                        (to + p.rest_at) * interleave, piece * interleave});
    }
  }
  return runs;
}

}  // namespace

void interleave_rows(GgufType type, WeightLayout layout, int64_t rows, int64_t blocks,
                     const std::byte* from, std::byte* to) {
  const int interleave = layout.interleave;
  const std::vector<Run> runs = runs_of(type, layout);
  const auto block_bytes = static_cast<int64_t>(info_of(type).bytes),
             row_bytes = blocks * block_bytes;
  for (int64_t group = 0; group < rows; group += interleave, from += interleave * row_bytes)
    for (int64_t b = 0; b < blocks; ++b, to += interleave * block_bytes)
      for (const Run& run : runs)
        interleave_words(run.piece, from + b * block_bytes + run.from, row_bytes, interleave,
                         run.words, to + run.to, run.to_stride);
}

Tensor raw_weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name,
                  WeightLayout layout) {
  const GgufTypeInfo& info = info_of(type);
  ENSURE(k > 0 && k % info.elements == 0, name + ": rows are not whole blocks");
  std::vector<Dim> shape = std::move(rows);
  if (layout.is_packed()) {
    const int64_t n = *const_int(shape.back().ref);
    ENSURE(can_interleave(type, n, layout.interleave), name + ": rows cannot be interleaved");
    shape.back() = Dim(n / layout.interleave);
  }
  shape.push_back(k / info.elements);
  if (is_plain(type))
    return param(slot, block_fields(type)[0].dtype, std::move(shape), std::move(name));
  shape.push_back(static_cast<int64_t>(info.bytes) * layout.interleave);
  return param(slot, DType::U8, std::move(shape), std::move(name));
}

Tensor dequantize(Tensor raw, GgufType type, WeightLayout layout) {
  const Grouped w = apply_formula(Block(raw, type, layout), type);
  if (is_plain(type)) return with_last_axes(w.q, 2, {w.q.size(-1)});
  Tensor values = f32(w.q);
  if (w.zero) values = values - static_cast<double>(w.zero);
  values = per_group(w.scale) * values;
  if (w.minimum.ref()) values = values - per_group(w.minimum);
  return with_last_axes(values, 3, {values.size(-3) * values.size(-2) * values.size(-1)});
}

int64_t activation_block(int64_t k) {
  for (int64_t n : {128, 64, 32})
    if (k % n == 0) return n;
  return 0;
}

Activations quantise_activations(Tensor x) {
  const int64_t k = x.size(-1), n = activation_block(k);
  if (n == 0) return {x, {}, {}};
  const Tensor blocks = split(x, k / n);
  const Tensor greatest = max(maximum(blocks, -blocks), -1);
  const Tensor scale = place(greatest * (1.0 / 127));
  const Tensor inverse =
      where(less(scalar(0), scale), scalar(1) / maximum(scale, scalar(1e-30)), scalar(0));
  const Tensor q = place(cast(floor(blocks * per_group(inverse) + 0.5), DType::I8));
  return {x, with_last_axes(q, 2, {k}), scale};
}

Activations rows_of(const Activations& x, Tensor rows) {
  if (!x.q.ref()) return {gather(x.x, rows), {}, {}};
  return {gather(x.x, rows), place(gather(x.q, rows)), place(gather(x.scale, rows))};
}

namespace {

constexpr int64_t kDigits = 4;  // bytes of which products are summed by one instruction

// What is known of each group of a row of x: the sums of its elements, and what the integers stand for.
struct GroupSums {
  Tensor in;     // [..., 1, blocks, groups, elements]: integers i32, or the values
  Tensor total;  // [..., 1, blocks, groups]: their sums
  Tensor scale;  // f32, the same shape; none: the values themselves
};

GroupSums in_groups(const Activations& x, bool integer, int64_t blocks, int64_t groups,
                    int64_t elements) {
  const auto grouped = [&](Tensor v) {
    return with_last_axes(v, 1, {1, blocks, groups, elements});
  };
  const Tensor in = grouped(integer ? cast(x.q, DType::I32) : x.x);
  GroupSums g{in, sum(in, -1), {}};
  if (!integer) return g;
  // The scale of a group is that of the block of activations it lies in.
  const Tensor scale = unsqueeze(x.scale, x.scale.rank());  // [..., k / n, 1]
  std::vector<Dim> wide(scale.shape().begin(), scale.shape().end());
  wide.back() = Dim(blocks * groups / x.scale.size(-1));
  g.scale = with_last_axes(expand(scale, wide), 2, {1, blocks, groups});
  return g;
}

// Signed bytes as unsigned ones, 128 greater: what instructions for sums of products of bytes take.
Grouped with_unsigned(Grouped w) {
  if (w.q.dtype() != DType::I8) return w;
  w.q = bitcast(w.q, DType::U8) ^ 128;
  w.zero += 128;
  return w;
}

// sum(steps[g] * total[g]) over the groups of each block of activations, as sums of products of bytes: a total of up to
// 126 elements is 128 * high + low. [..., rows, blocks of activations]
Tensor sum_of_steps(Tensor steps, Tensor total, int64_t blocks, int64_t groups) {
  const auto grouped = [&](Tensor v) { return with_last_axes(v, 2, {blocks, groups}); };
  const Tensor high = (total + 64) >> 7, low = total - high * 128;
  const auto dot = [&](Tensor digit) {
    const Tensor bytes = place(cast(digit, DType::I8));
    return sum(cast(grouped(steps), DType::I32) * cast(grouped(bytes), DType::I32), -1);
  };
  return dot(low) + dot(high) * 128;
}

// A number of each block of weights for each of the `n` blocks of activations in it.
Tensor for_activations(Tensor x, int64_t blocks, int64_t n) {
  std::vector<Dim> wide(x.shape().begin(), x.shape().end());
  wide.back() = Dim(n);
  return with_last_axes(expand(x, wide), 2, {blocks * n});
}

}  // namespace

// Within a group the sum is one of integers when the activations are; scales and minima stay outside, where there is
// one of each per group:
//   y[n] = sum over g of scale[n, g] * (dot(q[n, g], x[g]) - zero * sum(x[g])) - minimum[n, g] * sum(x[g])
// and what the integers of x stand for multiplies all of that, once for each of its blocks a. Minima that are steps of a
// block make one more sum of integers for each of these:
//   y[n] = sum over a of x.scale[a] * (sum over g of scale[n, g] * dot(q[n, g], x[g])
//                                      - step[n] * sum over g of steps[n, g] * sum(x[g]))
Tensor product(const Activations& x, Tensor raw, GgufType type, WeightLayout layout) {
  Grouped w = apply_formula(Block(raw, type, layout), type);
  if (is_plain(type))
    return sum(unsqueeze(x.x, x.x.rank() - 1) * with_last_axes(w.q, 2, {w.q.size(-1)}), -1);
  const int64_t blocks = w.q.size(-3), groups = w.q.size(-2), elements = w.q.size(-1);
  const int64_t together = activation_block(blocks * groups * elements);
  const bool integer = x.q.ref() && together % elements == 0;
  if (integer) w = with_unsigned(w);
  const GroupSums g = in_groups(x, integer, blocks, groups, elements);
  Tensor dot =
      sum(cast(w.q, integer ? DType::I32 : DType::F32) * g.in, -1);  // [..., rows, blocks, groups]
  if (integer && w.steps.ref() && together / elements % kDigits == 0) {
    const int64_t n = together / elements, all = blocks * groups / n;
    const Tensor scaled = sum(with_last_axes(w.scale * f32(dot), 2, {all, n}), -1),
                 step = for_activations(w.step, blocks, groups / n),
                 minima = step * f32(sum_of_steps(w.steps, g.total, all, n));
    return sum((scaled - minima) * unsqueeze(x.scale, x.scale.rank() - 1), -1);
  }
  Tensor minimum = w.minimum;
  if (w.zero && integer) dot = dot + place(g.total * static_cast<double>(-w.zero));
  if (w.zero && !integer) {
    const Tensor shift = w.scale * static_cast<double>(w.zero);
    minimum = minimum.ref() ? minimum + shift : shift;
  }
  Tensor term = w.scale * f32(dot);
  if (minimum.ref()) term = term - minimum * place(f32(g.total));
  if (integer) term = term * g.scale;
  return sum(with_last_axes(term, 2, {blocks * groups}), -1);
}

Tensor weight(int slot, GgufType type, std::vector<Dim> rows, int64_t k, std::string name,
              WeightLayout layout) {
  return dequantize(raw_weight(slot, type, std::move(rows), k, std::move(name), layout), type,
                    layout);
}

}  // namespace smelt
