// Rows: what is made of a row follows in the task that made the row.
//
//   kernel A: m[t, b] = max(x[t, b, i]; i)             kernel: for each row t { m = max(x); q = f(x, m); s = sum(q) }
//   kernel B: q[t, b, i] = f(x[t, b, i], m[t, b])
//   kernel C: s[t, b] = sum(q[t, b, i]; i)
//
// Rows are those of a prompt: of a leading axis of symbolic size, whose loop becomes one of kind Tile (tiles.h); for
// blocks of threads also those of one token, as heads, chosen experts and blocks of activations are. What
// later nests of the task read of a row is kept on chip, and goes to memory only where other kernels read it, too: a
// kernel never reads memory that it writes.
#pragma once

#include <optional>

#include "graph/node.h"

namespace smelt {

// The loop over rows of a store, as lowered, that may run row by row; null if it has none, or reads too much for a row,
// as products with matrices do: these want many rows at once. `most_bytes` is what a row may take of one buffer. Rows
// of an axis of known size must be `least_rows`; 0: they do not count as rows.
Ref loop_over_rows(Ref store, int64_t most_bytes, int64_t least_rows = 0);

// Whether it has a sum that multiplies each iteration of the first loop with one matrix. REQUIRES: it has loops.
bool multiplies_with_matrix(Ref store);

// The same store with an outer loop over as many rows as `rows` counts, where its leading loops together have a
// multiple of these; else the store as it is. A leading loop of symbolic size goes with those behind it: where tokens
// lie 8 side by side, a row may be a block of the numbers of 8 tokens.
Ref in_rows_of(Ref store, Ref rows);

// The same store with an outer loop over rows (loop_over_rows) of its first loop together with as few of those behind
// it as make rows that take no more than `most_bytes`; the store as it is where there are none.
Ref in_fitting_rows(Ref store, int64_t most_bytes);

// The loop over rows as the loop that nests of a tile share.
Ref tile_of_rows(Ref rows);
Ref in_tile_of_rows(Ref store, Ref rows);

// That loop of a store in a tile of rows; null in other tiles.
Ref shared_rows(Ref store);

// What an iteration of a loop over rows fills of a buffer: as many pieces of so many bytes, `step` bytes apart. The
// blocks of one token, where 8 tokens lie side by side, are pieces; mostly a row is a single one.
struct BufferRow {
  Ref begin;  // of a row, in bytes
  int64_t pieces = 1, step = 0, piece_bytes = 0;
  int64_t bytes() const { return pieces * piece_bytes; }
};

// Nothing where an iteration fills something else, or more than `most_bytes`.
std::optional<BufferRow> row_of_buffer(Ref store, Ref rows, int64_t most_bytes);

// Whether an iteration reads nothing of the buffer, or stores into it, but its own row.
bool reads_own_row(Ref store, Ref buffer, const BufferRow& row);
bool stores_own_row(Ref store, const BufferRow& row);

// The store with its loops in other orders.
Refs other_orders(Ref store);

// Whether what it reads of the buffer says where it reads others.
bool takes_index_from(Ref store, Ref buffer);

// The same store to, or reading from, an on-chip buffer that has one row in place of all.
Ref store_on_chip(Ref store, Ref local, const BufferRow& row);
Ref read_on_chip(Ref store, Ref buffer, Ref local, const BufferRow& row);

}  // namespace smelt
