// The codebooks of formats that store indices: runs of elements are entries of a table that all blocks share.
#pragma once

#include <cstdint>
#include <vector>

namespace smelt {

// By index: the entry's digits as a word of 32 bits. Digit j, of four, is the low nibble of byte j; of eight digits the
// last four are the high nibbles.
enum class Codebook { IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1 };
const std::vector<int64_t>& codebook_words(Codebook book);

}  // namespace smelt
