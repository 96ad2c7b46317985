// A cache of latents and keys as bytes, laid out so that attention over it is sums of products of bytes.
//
// A row x [n] is n bytes and a scale: x = q * scale + e, |e| <= scale / 2 = max |x| / 254. Whole rows and not blocks
// of them share a scale, so that a score is one integer sum from end to end. The bytes are kept twice, once in the
// order in which scores read them and once in that of the weighted sums of values:
//
//   keys    u8 [rows / 16, n / 4, 16, 4]       q + 128; positions side by side in lanes, four columns to a word
//   values  i8 [rows / 64, n / 64, 16, 64, 4]  q; columns side by side in lanes, four positions to a word
//   scales  f32 [rows / 64, heads, 64]         where each head of a row has a scale: those of a head side by side
//
// or, where the threads of a warp have a unit that multiplies them (graph/matrix_shape.h, "in fragments"), as these
// hold a block of 16 rows and 32 columns of the unit. A thread has 16 bytes, next to those of its neighbour: one load
// each of whole lines. Of keys rows of the unit are positions, of values columns:
//
//   keys    u8 [rows / 16, n / 32, 8, 4, 2, 2, 4]  position 2 a + d of 16, column 16 c + 4 b + e of 32
//   values  i8 [rows / 32, n / 16, 8, 4, 2, 2, 4]  column 2 a + d of 16, position 16 c + 4 b + e of 32
//
// A sum of products takes one unsigned and one signed byte: queries are signed, weights of a softmax unsigned.
#pragma once

#include "base/machine.h"
#include "graph/tensor.h"
#include "model/activation_layout.h"

namespace smelt {

constexpr int64_t kKeyGroup = 16;  // positions side by side
constexpr int64_t kValueGroup = 64,
                  kMostValueColumns = 64;  // positions and columns that lie together
constexpr double kKeyZero = 128;           // what stands for 0 in keys

enum class CacheOrder { Lanes, Fragments };

constexpr int64_t kFragmentWidth = 32;  // columns of a block

// Whether the threads of a warp have a unit of such blocks, which multiplies heads however many tokens there are.
bool has_fragments(const Machine& machine);

struct ByteRows {
  Tensor q;      // i8 [..., n]
  Tensor scale;  // f32 [...]
};

// The nearest bytes, scale and all computed once. A row of zeros has scale 0. Both lie as `layout` says;
// bytes only if a row is whole groups of them.
ByteRows to_bytes(Tensor x, const ActivationLayout& layout = {});

// Rows x [T, n] into columns `column` .. of the rows `row` (i64 [T]) of a buffer of `width` columns; the buffer
// afterwards. REQUIRES: n, column and width are multiples of 4; of fragments
// of kFragmentWidth. Buffers are made by the first two.
Tensor key_buffer(int slot, int64_t rows, int64_t width, std::string name);
Tensor value_buffer(int slot, int64_t rows, int64_t width, std::string name);
Tensor write_keys(Tensor buffer, Tensor row, int64_t column, int64_t width, Tensor q, CacheOrder order);
Tensor write_values(Tensor buffer, Tensor row, int64_t width, Tensor q, CacheOrder order);
Tensor scale_buffer(int slot, int64_t rows, int64_t heads, std::string name);
Tensor write_scales(Tensor buffer, Tensor row, Tensor scale);  // [T, heads]

// Such buffers as matrices [rows, width], read where they lie.
Tensor keys_of(Tensor buffer, int64_t width, CacheOrder order);    // u8
Tensor values_of(Tensor buffer, int64_t width, CacheOrder order);  // i8
Tensor scales_of(Tensor buffer, int64_t heads);                    // f32

}  // namespace smelt
