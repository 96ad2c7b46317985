// What all kinds of attention share: where the tokens of a step stand, which rows of the cache they write and see, and
// scores over rows of bytes.
#pragma once

#include "model/block.h"
#include "model/rope.h"

namespace smelt {

// T tokens, S positions of the context, R rows of the layer's cache. With a window S are the chunks that a token may
// read of, from one on that depends on its place.
struct Positions {
  Tensor of_token;         // i64 [T]
  Tensor row;              // i64 [T]: the cache row of each token
  Tensor context;          // i64 [1, S]: 0, 1, 2 ...; [T, S] where tokens have windows
  Tensor rows;             // i64 [T, S]: their cache rows, in the sequence of a token
  Angles angles;           // f32 [T, width / 2]
  int64_t cache_rows = 0;  // R
  int64_t window = 0;      // a token sees this many positions, its own included; 0: all
};

// `tables`: the suffix of the tables of angles, see rope_tables().
Positions positions(Block& b, int64_t rope_width, const std::string& tables = "", int64_t window = 0);

// The first position whose row of the cache a token at `position` reads: with a window, the begin of a chunk.
int64_t first_read(int64_t position, int64_t window);

// What a block's attention leaves behind.
struct Attended {
  Tensor out;          // [T, D]
  Refs written_cache;  // the parts of the cache, with the rows of this step; or those of states
};

// Part `name` of the cache, as a new slot: type [R, width].
Tensor cache_part(Block& b, const Positions& at, const char* name, DType type, int64_t width);

// Positions above a token's own do not count, nor those before its window. score [T, heads..., S]
Tensor causal(Tensor score, const Positions& at);

// Scores of x [T, heads..., n] over rows of bytes q - 128 times scale, as byte_cache.h keeps them; q [..., S, n] and
// scale [..., S] broadcast. Bytes are multiplied with bytes: each row of x becomes 8-bit integers, too; or with halves,
// see Block::attends_by_halves(). -> [T, heads..., S], with as many of the last axis of heads as
// Block::heads_computed() says
Tensor scores_of_bytes(Block& b, Tensor x, Tensor q, Tensor scale);

}  // namespace smelt
