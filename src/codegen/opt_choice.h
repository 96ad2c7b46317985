// A choice of options under way, and the steps that make it. Each step tries options in an order of preference and
// keeps those that are legal.
#pragma once

#include <vector>

#include "codegen/heuristics.h"

namespace smelt {

struct OptChoice {
  Refs stores;  // with the options applied that were taken so far
  const Machine& machine;
  OptObserver observe = {};
  std::vector<Opt> opts = {};
  bool has_local = false;           // neighbouring outputs are in lanes
  bool is_block = false;            // a block of sums fills the registers
  bool has_rows = false;            // a thread computes all rows of a tile from what it reads for one
  bool has_room_for_rounds = true;  // in registers, beside the sums of a thread
  int64_t blocks_of_columns = 1;    // whose sums a thread has, where a unit multiplies them with the same rows

  // Takes an option if it is legal.
  bool try_opt(Opt opt);
  RangeId id_of(Ref range) const;
  Refs output_axes() const;
  // Iterations of output loops that are left for blocks; 0 where their number is not known.
  int64_t blocks_left() const;
  // The widest vector, or part of a warp, of which the range's size is a multiple; 0 if there is none.
  int64_t lanes_for(Ref range) const;
  bool is_part_of_tile() const;
};

// How the loads below expressions move with a range.
struct Walk {
  // Next value, next element (or the next word, for bytes: see coalesce_loads.cpp).
  int neighbours = 0;
  int scattered = 0;  // any other step
};
// `piece`: bytes that a thread loads at once, so that the next piece is as near as the next word.
Walk walk(const Refs& roots, Ref range, int64_t piece = 4);

// What is left of an axis when an option has taken its inner part; null if that was all.
Ref left_of(const OptChoice& c, Ref axis);
// An option of the inner `n` of an axis, which becomes what is left of it.
bool take_part(OptChoice& c, OptKind kind, Ref& axis, int64_t n);
// An axis cut by SPLIT into `n` neighbours and what is around them; nulls if it cannot be.
struct AxisParts {
  Ref inner, outer;
};
AxisParts split_axis(OptChoice& c, Ref axis, int64_t n);
// UPCAST of `n` places of an axis that are as far from each other as they can be, in place of neighbours. Rows that
// come from memory are then streams which go on where they are when a row ends, and what is asked for ahead is read
// next. False, and nothing taken, if it cannot be.
bool take_copies_apart(OptChoice& c, Ref axis, int64_t n);

Refs loads_of_bytes(const Refs& stores);
// Pairs of rows whose words lie side by side, as fragments want them (model/byte_cache.h). Null if there are none.
Ref pairs_of_rows(const OptChoice& c);

Refs reductions_of(const Refs& stores);
bool holds_reduction(Ref reduce);

// choose_lanes.cpp
void choose_pack(OptChoice& c);
void choose_local(OptChoice& c);
void choose_dot(OptChoice& c);
void choose_group(OptChoice& c);

// choose_threads.cpp: what these three do for vectors
void choose_threads(OptChoice& c, bool is_local);
// Iterations of the output loops, at least; only of those that the value depends on, if there is one.
int64_t outputs_left(const OptChoice& c, Ref value = Ref());
// Of the size of a range, `most` at most; 1 if there is none.
int64_t greatest_divisor(Ref size, int64_t most);

// choose_products.cpp
void choose_panel(OptChoice& c);
bool choose_matrix(OptChoice& c);              // false: sums of words are as fast
bool choose_products_of_halves(OptChoice& c);  // in memory; false: there are none
void choose_block(OptChoice& c);
bool is_product_of_reused(const OptChoice& c);

// choose_copies.cpp
// Registers for the sums of 4 tokens and 2 vectors of rows: those of a group, and what these add up to.
bool holds_two_vectors(const Machine& machine);
void choose_rows(OptChoice& c);
void choose_unroll(OptChoice& c);
void choose_unroll_of_bytes(OptChoice& c);
void choose_upcast(OptChoice& c);
// `bytes`: that a thread has asked for before it uses the first. `counts_partials`: for all of its partial sums.
void choose_rounds_in_flight(OptChoice& c, int64_t bytes, bool counts_partials);
void choose_terms_together(OptChoice& c);
void choose_rounds_together(OptChoice& c, bool is_local);

// How many words of sums of bytes are written out, at most.
void unroll_words(OptChoice& c, int64_t words);

// choose_fragments.cpp
bool choose_fragments(OptChoice& c);  // false: there are none

// choose_halves.cpp
bool choose_halves(OptChoice& c);  // the same

// choose_streams.cpp
void choose_streams(OptChoice& c);

// choose_tasks.cpp
void choose_order(OptChoice& c);
void choose_tasks(OptChoice& c);

}  // namespace smelt
