// Which entries of a codebook are nearest to values: the search behind formats that store indices (IQ1, IQ2, IQ3).
//
//   value = d * unit * (2 s + 1) * level of the digit            d for a block, s for a group of it
//
// Levels are magnitudes, with a sign for each element beside them; or they have signs of their own and come in two
// variants, of which some elements together take one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/codebook.h"

namespace smelt {

enum class CodebookSigns {
  None,    // levels have them
  Parity,  // of eight elements an even number is below zero: seven bits say which
  All,
};

struct CodebookFormat {
  Codebook book;
  size_t digits;         // of an entry, as many elements
  size_t group;          // elements that share a scale
  uint32_t scale_count;  // s of 0 .. scale_count - 1
  double unit;
  CodebookSigns signs;
  std::vector<std::vector<float>> levels;  // by variant and digit
  size_t variant_elements = 256;           // that take the same variant
};

// A block of 256 elements as its format stores it.
struct CodebookBlock {
  float d = 0;
  std::vector<uint32_t> scales;        // s of each group
  std::vector<uint32_t> entries;       // of each run of `digits` elements
  std::array<uint8_t, 32> signs{};     // bit i of byte k: element 8 k + i is below zero
  std::array<uint8_t, 32> variants{};  // of the elements 8 k ... 8 k + 7
};

// The block with about the least error of 256 values, weighted. `store_d`: d as the format keeps it. REQUIRES: `format`
// lives as long as the program: what is made for it is kept.
CodebookBlock search_codebook(const CodebookFormat& format, std::span<const float> x, std::span<const float> weight,
                              float (*store_d)(float));

}  // namespace smelt
