#include "model/block_groups.h"

#include <algorithm>

#include "base/ensure.h"
#include "model/codebook.h"
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

// The lowest `n` fields of `bits` bits of every integer, side by side: [m] -> [m, n].
Tensor fields_of(Tensor x, int64_t n, int bits) {
  const Tensor each = with_last_axes(x, 1, {x.size(-1), 1}), shift = cast(iota({n}, 0) * double(bits), x.dtype());
  return (each >> shift) & ((1 << bits) - 1);
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
    const auto& fields = packed_fields(type_, layout_.order, layout_.piece);
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
    const int64_t n = layout_.interleave, piece = p.piece, sections = p.sections;
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

// Half of a float of four bits of exponent (bias 7) and three of fraction, without a sign; 0x7F is no number: zero.
Tensor small_float_halved(Tensor e) {
  const Tensor x = cast(e, DType::U32), exponent = (x >> 3) & 15, one = scalar(1, DType::U32);
  const Tensor normal = ((x & 7) + 8) << (maximum(exponent, one) - one);
  const Tensor number = where(less(exponent, one), x & 7, normal);  // in units of 2^-10
  return f32(where(equal(x, scalar(127, DType::U32)), scalar(0, DType::U32), number)) * 0x1p-10;
}

// Five digits of base 3 a byte, as the fraction byte / 256: digit n is what 3^n times the byte has above the point when
// it is multiplied once more. Elements of a digit are 32 bytes in a row, then 16, then the four of qh. -> [256]
Tensor trits(Tensor qs, Tensor qh) {
  const auto repeated = [](Tensor bytes) {  // [n] -> [64, 4]
    const int64_t words = bytes.size(-1) / 4;
    const Tensor row = with_last_axes(bytes, 1, {1, words, 4});
    std::vector<Dim> shape(row.shape().begin(), row.shape().end());
    shape[shape.size() - 3] = Dim(64 / words);
    return with_last_axes(expand(row, shape), 3, {64, 4});
  };
  std::vector<int64_t> powers;
  for (int64_t words : {8, 4, 1})
    for (int64_t n = 0, power = 1; n < (words == 1 ? 4 : 5); ++n, power *= 3) powers.insert(powers.end(), words, power);
  const Tensor word = iota({64, 1}, 0);
  const auto before = [&](double n) { return less(word, scalar(n, DType::I64)); };
  const Tensor bytes = where(before(40), repeated(slice(qs, -1, 0, 32)),
                             where(before(60), repeated(slice(qs, -1, 32, 16)), repeated(qh)));
  const Tensor fraction = bytes * lut(cast(word, DType::U32), powers, DType::U8);
  return join(cast((cast(fraction, DType::U16) * 3.0) >> 8, DType::U8));
}

// --- elements that are entries of a codebook

// The digits of entries, [entries] -> u8 [entries, digits]: four of them, or eight.
Tensor digits_of(Tensor index, Codebook book, int64_t digits) {
  const Tensor words = with_last_axes(lut(index, codebook_words(book), DType::U32), 1, {index.size(-1), 1, 1});
  const int64_t rows = digits / 4;
  const Tensor shift = cast(iota({rows, 4}, 0) * 4.0 + iota({rows, 4}, 1) * 8.0, DType::U32);
  return cast(with_last_axes((words >> shift) & 15, 2, {digits}), DType::U8);
}

// Eight bits for eight elements, of which the highest is stored as a parity: there is an even number of them.
Tensor with_parity(Tensor seven) {
  const Tensor four = seven ^ (seven >> 4);  // the bits of a nibble have the parity of all
  const Tensor parity = (scalar(0x6996, four.dtype()) >> (four & 15)) & 1;
  return seven | (parity << 7);
}

// Levels by digit, with the signs of eight elements in each of `signs`. [groups, elements]
Tensor signed_levels(Tensor digits, Tensor signs, std::vector<int64_t> levels, int64_t groups) {
  levels.resize(8);
  for (size_t i = 0; i < 8; ++i) levels.push_back(-levels[i]);
  const auto grouped = [&](Tensor x) { return with_last_axes(x, 2, {groups, x.size(-2) * x.size(-1) / groups}); };
  return lut(grouped(digits) | (grouped(cast(fields_of(signs, 8, 1), DType::U8)) << 3), std::move(levels), DType::I8);
}
Tensor iq2_levels(Tensor index, Tensor signs, Codebook book, int64_t groups) {
  return signed_levels(digits_of(index, book, 8), signs, {8, 25, 43}, groups);
}

constexpr int kIq1Zero = 9;
constexpr int64_t kIq1Most = 2 * 8 + 2;  // digits have four bits, but are 0 to 2

// Digits minus one, plus 1/8 or (is_below, for runs of entries) minus 1/8, in eighths and 9 greater.
Tensor iq1_groups(Tensor index, Tensor is_below, int64_t groups) {
  const int64_t runs = is_below.size(-1);
  const Tensor eighths = cast(is_below ^ 1, DType::U8) << 1, digits = digits_of(index, Codebook::IQ1, 8) << 3;
  const Tensor q = with_last_axes(digits, 2, {runs, 256 / runs}) | with_last_axes(eighths, 1, {runs, 1});
  return with_last_axes(q, 2, {groups, 256 / groups});
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

Grouped IQ4_NL(const Block& b) { return {iq4_value(split(nibbles(b["qs"]), 1)), b.f("d"), 0, {}}; }

Grouped IQ4_XS(const Block& b) {
  const Tensor low = with_last_axes(unpack(split(b["scales_l"], 4), 4), 3, {8});
  const Tensor high = unpack_word(b["scales_h"], 2, 8);
  const Tensor q = with_last_axes(unpack(split(b["qs"], 8), 4), 3, {256});
  return {iq4_value(split(q, 8)), b.f("d") * (f32(low | (high << 4)) - 32.0), 0, {}};
}

Grouped NVFP4(const Block& b) {
  const Tensor q = with_last_axes(unpack(split(b["qs"], 4), 4), 2, {16});
  return {fp4_value_doubled(q), small_float_halved(b["e"]), 0, {}};
}

// One scale for all; sums of integers go over half of them.
Grouped ternary(const Block& b, Tensor q) {
  const Tensor halves = split(q, 2), d = b.f("d");
  return {halves, with_last_axes(concatenate(d, d), 1, {2}), 1, {}};
}

Grouped TQ1_0(const Block& b) { return ternary(b, trits(b["qs"], b["qh"])); }

Grouped TQ2_0(const Block& b) { return ternary(b, two_bits_of_halves(b["qs"])); }

// d * (1/2 + scale) / 4
Tensor iq2_scale(const Block& b, Tensor scale) { return b.f("d") * (f32(scale) + 0.5) * 0.25; }

Grouped IQ2_XXS(const Block& b) {
  const Tensor pairs = split(b["qs"], 8);  // four indices; four times seven signs and the scale
  const Tensor index = join(fields_of(join(slice(pairs, -1, 0, 1)), 4, 8)), word = join(slice(pairs, -1, 1, 1));
  const Tensor signs = with_parity(join(fields_of(word, 4, 7)));
  return {iq2_levels(index, signs, Codebook::IQ2_XXS, 8), iq2_scale(b, word >> 28), 0, {}};
}

// Groups of 16, whose scales are nibbles.
Grouped iq2_of_sixteen(const Block& b, Tensor index, Tensor signs, Codebook book) {
  return {iq2_levels(index, signs, book, 16), iq2_scale(b, join(fields_of(b["scales"], 2, 4))), 0, {}};
}

Grouped IQ2_XS(const Block& b) {
  const Tensor both = join(fields_of(b["qs"], 2, 16));  // nine bits of index, seven signs
  return iq2_of_sixteen(b, both & 511, with_parity(both >> 9), Codebook::IQ2_XS);
}

// Bytes of indices, and the bits above them.
Tensor with_high(Tensor low, Tensor high) { return cast(low, DType::U32) | (cast(high, DType::U32) << 8); }

Grouped IQ2_S(const Block& b) {
  const Tensor index = with_high(b["qs"], join(fields_of(b["index_high"], 4, 2)));
  return iq2_of_sixteen(b, index, cast(b["signs"], DType::U32), Codebook::IQ2_S);
}

Grouped IQ3_XXS(const Block& b) {
  const Tensor word = b["signs"];  // four times seven signs and the scale
  const Tensor digits = digits_of(cast(b["qs"], DType::U32), Codebook::IQ3_XXS, 4),
               signs = with_parity(join(fields_of(word, 4, 7)));
  return {signed_levels(digits, signs, {4, 12, 20, 28, 36, 44, 52, 62}, 8),
          b.f("d") * (f32(word >> 28) + 0.5) * 0.5,
          0,
          {}};
}

Grouped IQ3_S(const Block& b) {
  const Tensor index = with_high(b["qs"], join(fields_of(b["index_high"], 8, 1))), signs = cast(b["signs"], DType::U32),
               scale = join(fields_of(b["scales"], 2, 4));
  return {signed_levels(digits_of(index, Codebook::IQ3_S, 4), signs, {1, 3, 5, 7, 9, 11, 13, 15}, 8),
          b.f("d") * (f32(scale) * 2.0 + 1.0),
          0,
          {}};
}

// An eighth of d * (2 scale + 1)
Tensor iq1_scale(Tensor d, Tensor scale) { return d * (f32(scale) * 2.0 + 1.0) * 0.125; }

Grouped IQ1_S(const Block& b) {
  // Of 16 bits each: four times three bits of index, the scale, and whether elements are below.
  const Tensor both = join(fields_of(b["qh"], 2, 16));
  const Tensor q = iq1_groups(with_high(b["qs"], join(fields_of(both, 4, 3))), both >> 15, 8);
  return {.q = q, .scale = iq1_scale(b.f("d"), (both >> 12) & 7), .zero = kIq1Zero, .most = kIq1Most};
}

Grouped IQ1_M(const Block& b) {
  const Tensor both = join(fields_of(b["qh"], 2, 4)),
               words = join(fields_of(b["scales"], 2, 16));  // three bits of index; below
  const Tensor scale = join(fields_of(words, 4, 3));
  Tensor bits = slice(words, -1, 0, 1) >> 12;
  for (int64_t i = 1; i < 4; ++i) bits = bits | ((slice(words, -1, i, 1) >> 12) << (4 * i));
  return {.q = iq1_groups(with_high(b["qs"], both & 7), both >> 3, 16),
          .scale = iq1_scale(f32(bitcast(cast(bits, DType::U16), DType::F16)), scale),
          .zero = kIq1Zero,
          .most = kIq1Most};
}

Grouped MXFP4(const Block& b) {
  return {fp4_value_doubled(split(nibbles(b["qs"]), 1)), power_of_two_halved(b["e"]), 0, {}};
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
