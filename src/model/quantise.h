// Values as blocks of a format: for each group the scale (and minimum) whose rounded values are nearest to it.
//
// Formats of one scale for 32 elements take it from the greatest value, which is the rule of every other program: their
// files are equal byte by byte. With importances, for those of groups in blocks of 256, and for tables of values,
// candidates around that are tried, the best scale for the integers of each is solved for, and the one with the least
// weighted error is kept; codebook_search.h does the same where indices of entries take the place of integers.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/types.h"

namespace smelt {

bool can_quantise_to(GgufType type);

// Types whose values read_values() gives.
bool can_quantise_from(GgufType type);

// The values of whole blocks. REQUIRES: can_quantise_from(type); `to` has as many elements as `from`.
void read_values(GgufType type, std::span<const std::byte> from, std::span<float> to);

// `importance`: of each value, none below zero; or empty. What a value may lose falls as its importance grows, where
// the format chooses scales at all: Q8_0, MXFP4 and TQ do not. REQUIRES: can_quantise_to(type); x is finite and whole
// blocks, `to` their bytes.
void quantise(GgufType type, std::span<const float> x, std::span<std::byte> to, std::span<const float> importance = {});

}  // namespace smelt
