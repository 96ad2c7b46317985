// The steps of make_schedule() behind split_reduce() and choose_places(), in running order.
#pragma once

#include "schedule/state.h"

namespace smelt {

// Decides how each tile divides its axes, and which tiles go over all of their chunks: the sums of these are inside of
// them, and partial results need no place any more (changes `places`).
void shape_tiles(ScheduleState& state);

// An item for each tensor that has a place, for each cache write and for each output that copies.
void collect_items(ScheduleState& state);

// Gives items their buffers: slots of the segment, temps, or on-chip memory.
void assign_buffers(ScheduleState& state);

// Which items each item reads.
void find_needs(ScheduleState& state);

// Stores instead of tensors. Those of a tile get the loops that they share, and in a tile that goes over all chunks
// more stores come in between (adds to `items`).
void lower_items(ScheduleState& state);
void join_tiles(ScheduleState& state);

// Items get their levels. What is made of the rows of one item, or of one tile, at the next level follows in the tasks
// that make these rows (row_tiles.h): kernels and levels are fewer (changes stores, `tile` and `order` of items).
void follow_rows(ScheduleState& state);

// Where the tasks of a tile read a few rows each of what another tile makes, they make these rows themselves if that is
// little work: a row of a value projection reads the average of one head of an attention (changes stores, `tile`,
// `order`, levels and buffers of items, and empties temps that nobody reads any more).
void repeat_rows(ScheduleState& state);

// What later nests of its tile read of what a nest makes stays on chip (changes stores, fills in `copy`, and empties
// temps that nobody reads any more).
void keep_rows(ScheduleState& state);

// What blocks of threads would compute, each for itself, before they begin with their own work. Where its readers wait
// for something else of its level, a kernel that is there anyway stores it once; and what it reads of the level before
// goes on chip, if that is what makes room: ranks of experts, for the list of those chosen (changes `on_chip`, buffers
// and stores, adds to `items`).
void store_once(ScheduleState& state);

// A kernel for each level: its items as nests, in order, with on-chip items in front.
void build_kernels(ScheduleState& state);

// Where temps lie in the segment's arena.
void place_temps(ScheduleState& state);

}  // namespace smelt
