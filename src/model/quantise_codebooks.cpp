#include "model/quantise_codebooks.h"

#include "base/ensure.h"
#include "model/codebook_search.h"

namespace smelt {
namespace {

// --- what the formats have in common with each other (model/block_groups.cpp has their formulas)

CodebookFormat with_magnitudes(Codebook book, size_t digits, size_t group, double unit, CodebookSigns signs,
                               std::vector<float> levels) {
  return {.book = book,
          .digits = digits,
          .group = group,
          .scale_count = 16,
          .unit = unit,
          .signs = signs,
          .levels = {std::move(levels)}};
}

CodebookFormat iq2(Codebook book, size_t group, CodebookSigns signs) {
  return with_magnitudes(book, 8, group, 1.0 / 8, signs, {8, 25, 43});
}

// Digits minus one, plus an eighth or minus one, in eighths.
CodebookFormat iq1(size_t group, size_t variant_elements) {
  return {.book = Codebook::IQ1,
          .digits = 8,
          .group = group,
          .scale_count = 8,
          .unit = 1.0 / 8,
          .signs = CodebookSigns::None,
          .levels = {{-7, 1, 9}, {-9, -1, 7}},
          .variant_elements = variant_elements};
}

const CodebookFormat& format_of(GgufType type) {
  using enum CodebookSigns;
  static const CodebookFormat iq1_s = iq1(32, 32), iq1_m = iq1(16, 8), iq2_xxs = iq2(Codebook::IQ2_XXS, 32, Parity),
                              iq2_xs = iq2(Codebook::IQ2_XS, 16, Parity), iq2_s = iq2(Codebook::IQ2_S, 16, All),
                              iq3_xxs = with_magnitudes(Codebook::IQ3_XXS, 4, 32, 1.0 / 4, Parity,
                                                        {4, 12, 20, 28, 36, 44, 52, 62}),
                              iq3_s = with_magnitudes(Codebook::IQ3_S, 4, 32, 1, All, {1, 3, 5, 7, 9, 11, 13, 15});
  switch (type) {
    case GgufType::IQ1_S: return iq1_s;
    case GgufType::IQ1_M: return iq1_m;
    case GgufType::IQ2_XXS: return iq2_xxs;
    case GgufType::IQ2_XS: return iq2_xs;
    case GgufType::IQ2_S: return iq2_s;
    case GgufType::IQ3_XXS: return iq3_xxs;
    case GgufType::IQ3_S: return iq3_s;
    default: ENSURE(false, "no format with a codebook");
  }
}

// --- where the numbers lie

template <class T>
void put(uint8_t* field, size_t i, T value) {
  std::memcpy(field + i * sizeof value, &value, sizeof value);
}

uint8_t low_byte(uint32_t index) { return static_cast<uint8_t>(index); }

// Neighbours in one byte, the first one lowest.
template <class List>
void put_small(const List& numbers, int bits, int shift, uint8_t* to) {
  const size_t each = 8 / static_cast<size_t>(bits);
  for (size_t i = 0; i < numbers.size(); ++i)
    to[i / each] |=
        static_cast<uint8_t>((numbers[i] >> shift & ((1u << bits) - 1)) << (i % each * static_cast<size_t>(bits)));
}

// Of 32 elements: four times seven signs, and the scale above.
uint32_t signs_and_scale(const CodebookBlock& block, size_t g) {
  uint32_t word = block.scales[g] << 28;
  for (size_t i = 0; i < 4; ++i) word |= (block.signs[4 * g + i] & 127u) << (7 * i);
  return word;
}

void put_iq2_xxs(const CodebookBlock& block, const BlockWriter& b) {
  for (size_t g = 0; g < 8; ++g) {
    uint32_t entries = 0;
    for (size_t i = 0; i < 4; ++i) entries |= block.entries[4 * g + i] << (8 * i);
    put(b["qs"], 2 * g, entries);
    put(b["qs"], 2 * g + 1, signs_and_scale(block, g));
  }
}

void put_iq2_xs(const CodebookBlock& block, const BlockWriter& b) {
  for (size_t i = 0; i < 32; ++i)
    put(b["qs"], i, static_cast<uint16_t>(block.entries[i] | (block.signs[i] & 127u) << 9));
  put_small(block.scales, 4, 0, b["scales"]);
}

// Low bytes of the entries, then what is above them.
void put_entries(const CodebookBlock& block, int high_bits, const BlockWriter& b) {
  for (size_t i = 0; i < block.entries.size(); ++i) b["qs"][i] = low_byte(block.entries[i]);
  if (high_bits) put_small(block.entries, high_bits, 8, b["index_high"]);
}

void put_with_all_signs(const CodebookBlock& block, int high_bits, const BlockWriter& b) {
  put_entries(block, high_bits, b);
  std::copy(block.signs.begin(), block.signs.end(), b["signs"]);
  put_small(block.scales, 4, 0, b["scales"]);
}

void put_iq3_xxs(const CodebookBlock& block, const BlockWriter& b) {
  put_entries(block, 0, b);
  for (size_t g = 0; g < 8; ++g) put(b["signs"], g, signs_and_scale(block, g));
}

void put_iq1_s(const CodebookBlock& block, const BlockWriter& b) {
  put_entries(block, 0, b);
  for (size_t g = 0; g < 8; ++g) {
    uint32_t word = block.scales[g] << 12 | uint32_t{block.variants[4 * g]} << 15;
    for (size_t i = 0; i < 4; ++i) word |= block.entries[4 * g + i] >> 8 << (3 * i);
    put(b["qh"], g, static_cast<uint16_t>(word));
  }
}

// d lies in the high nibbles of the words of scales.
void put_iq1_m(const CodebookBlock& block, const BlockWriter& b) {
  put_entries(block, 0, b);
  std::array<uint8_t, 32> above{};
  for (size_t i = 0; i < above.size(); ++i)
    above[i] = static_cast<uint8_t>(block.entries[i] >> 8 | uint32_t{block.variants[i]} << 3);
  put_small(above, 4, 0, b["qh"]);
  const uint32_t d = half_bits(block.d);
  for (size_t word = 0; word < 4; ++word) {
    uint32_t bits = (d >> (4 * word) & 15) << 12;
    for (size_t i = 0; i < 4; ++i) bits |= block.scales[4 * word + i] << (3 * i);
    put(b["scales"], word, static_cast<uint16_t>(bits));
  }
}

}  // namespace

void put_codebook_block(GgufType type, std::span<const float> x, std::span<const float> weight, const BlockWriter& b) {
  const CodebookBlock block = search_codebook(format_of(type), x, weight, as_half);
  if (type != GgufType::IQ1_M) b.half("d", block.d);
  switch (type) {
    case GgufType::IQ1_S: return put_iq1_s(block, b);
    case GgufType::IQ1_M: return put_iq1_m(block, b);
    case GgufType::IQ2_XXS: return put_iq2_xxs(block, b);
    case GgufType::IQ2_XS: return put_iq2_xs(block, b);
    case GgufType::IQ2_S: return put_with_all_signs(block, 2, b);
    case GgufType::IQ3_XXS: return put_iq3_xxs(block, b);
    default: return put_with_all_signs(block, 1, b);
  }
}

}  // namespace smelt
