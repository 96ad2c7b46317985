// How the numbers that products of many tokens read lie in memory.
//
// Threads that hold a fragment of a matrix have neighbouring rows (graph/matrix_shape.h), so words of neighbouring rows
// lie side by side: where `rows` is 8 and a row has the words a b c ..., memory has a0 a1 .. a7 b0 b1 .. b7 c0 ...
#pragma once

#include "graph/tensor.h"

namespace smelt {

struct ActivationLayout {
  int64_t rows = 1;          // side by side; 1: each row by itself
  int axis = 0;              // of the tensor, along which rows are: of as many as a multiple of `rows`
  bool is_of_bytes = false;  // only: scales and sums of each row lie by themselves
};

// x [...], placed. A word is so many elements of the last axis, of which there are whole words.
Tensor place_rows(Tensor x, const ActivationLayout& layout, int64_t word = 1, Line line = Line::current());

// The same for scales and sums of rows, x [..., blocks].
Tensor place_numbers(Tensor x, const ActivationLayout& layout, Line line = Line::current());

// The same for halves x bf16 [..., k] that a unit reads from on-chip memory (graph/matrix_shape.h). A word is 8 of
// them, in the order that it has there. REQUIRES: k is a multiple of 16.
Tensor place_halves(Tensor x, const ActivationLayout& layout, Line line = Line::current());

// Whether place_bytes() takes rows of this length.
bool has_whole_groups(Tensor q);

// The same for bytes q i8 [..., k] that products multiply. A word is a group of 32, in which the two words of 4 bytes
// that a thread holds of a row, 16 bytes apart, become neighbours.
Tensor place_bytes(Tensor q, const ActivationLayout& layout, Line line = Line::current());

}  // namespace smelt
