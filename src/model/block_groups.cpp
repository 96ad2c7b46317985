#include "model/block_groups.h"

#include <algorithm>

#include "base/ensure.h"
#include "model/packed_block.h"

namespace smelt {

Tensor with_last_axes(Tensor x, int axes, std::vector<int64_t> to) {
  std::vector<Dim> shape;
  for (int i = 0; i < x.rank() - axes; ++i) shape.push_back(x.dim(i));
  shape.insert(shape.end(), to.begin(), to.end());
  return reshape(x, std::move(shape));
}

namespace {

// --- pieces of formulas. Shapes show the axes of one block; those in front of them, of rows and
// blocks, stay as they are.

// [n] -> [groups, n / groups]
Tensor split(Tensor x, int64_t groups) { return with_last_axes(x, 1, {groups, x.size(-1) / groups}); }

// [a, b] -> [a * b]
Tensor join(Tensor x) { return with_last_axes(x, 2, {x.size(-2) * x.size(-1)}); }

// 0, step, 2 step ... along the first of two axes, for shifting: [n, 1].
Tensor shifts(int64_t n, int64_t step, DType dtype) { return cast(iota({n, 1}, 0) * static_cast<double>(step), dtype); }

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
    const auto place =
        std::find_if(fields.begin(), fields.end(), [&](const PackedField& p) { return p.field.name == field.name; });
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
    const Tensor pairs = with_last_axes(bytes(p.pairs_at, p.pairs * 2 * piece), 1, {1, p.pairs, 2, n * piece});
    const Tensor paired = slice(pairs, -2, p.is_second, 1);  // [sections, 1, pairs, 1, n * piece]
    if (p.pairs == p.pieces()) return as_pieces(paired);
    // Runs of as many pieces: the first one is there, the others follow each other.
    const int64_t runs = p.pieces() / p.pairs;
    const Tensor rest =
        with_last_axes(bytes(p.rest_at - p.pairs * piece, p.pieces() * piece), 1, {runs, p.pairs, 1, n * piece});
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
  return {concatenate(a & 63, (c & 15) | ((a >> 6) << 4)), concatenate(b & 63, (c >> 4) | ((b >> 6) << 4))};
}

// All elements of the block share a scale; q [elements].
Grouped one_group(const Block& b, Tensor q, int zero = 0) { return {split(q, 1), b.f("d"), zero, {}}; }

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
  return lut(q, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, DType::I8);
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
  return with_steps({split(two_bits_of_halves(b["qs"]), 16), b.f("d") * f32(both & 15)}, b.f("dmin"), both >> 4);
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
  return with_steps({nibbles_of_runs(b["qs"]) | (unpack(b["qh"], 1) << 4), b.f("d") * f32(scales)}, b.f("dmin"),
                    minima);
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

}  // namespace

Grouped groups_of(Tensor raw, GgufType type, WeightLayout layout) {
  return apply_formula(Block(raw, type, layout), type);
}

}  // namespace smelt
