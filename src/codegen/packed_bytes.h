// Four bytes in a word: what an expression of bytes is for four neighbouring values of a range, computed at once.
//
//   and(shr(load u8 [base + r], 4), 15)  ->  and(shr(load u32 [base], 4), 0x0f0f0f0f)
#pragma once

#include "graph/node.h"

namespace smelt {

inline bool is_byte(DType dtype) { return dtype == DType::U8 || dtype == DType::I8; }

// sum over range of `term`, the product of an unsigned byte and a signed one, both cast to I32, as a Dot4; nothing
// where the term is no such product or a side cannot be packed. REQUIRES: the range has size 4.
Ref packed_dot(Ref term, Ref range);

// A byte for each value of the range as a word; nothing where it cannot be packed. REQUIRES: the range has size 4.
Ref packed_bytes(Ref byte, Ref range);

// Whether the byte is a number that was rounded. Each of four such bytes is computed by itself.
bool is_rounded(Ref byte);

// The same for bytes that are stored: four rounded numbers make a word, too.
Ref word_to_store(Ref byte, Ref range);

}  // namespace smelt
