// Staged reads: what the rounds of a product read of memory goes to a ring on chip some rounds ahead, by copies that no
// thread waits for. Registers then hold sums and not what is on its way, and each byte is read once for the block.
//
//   sum(w[row, k] * x[token, k]; k)  ->  sum(ring[k % slots, row] * ring[k % slots, token]; k)
//
// A round of a buffer is a region: slabs of `run` bytes each, which lie `stride` bytes apart. From round to round they
// move by a step; mostly run is step, so that all rounds of a slab are one stream. Where blocks of weights are long a
// round is a part of them, and the step another one from block to block.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/machine.h"
#include "graph/node.h"

namespace smelt {

// How far what is read of a buffer moves: from each `count` rounds to the next ones, and from round to round of these.
struct RoundSteps {
  int64_t outer = 0, inner = 0;
  bool operator==(const RoundSteps&) const = default;
};

struct StagedRegion {
  Ref buffer, begin;  // of the first slab in round 0: a byte offset that a task knows
  RoundSteps steps;
  int64_t run = 0;     // bytes of a slab
  int64_t stride = 0;  // from slab to slab; 0: there is one
  int64_t slabs = 1;
  int64_t at = 0;        // in a slot of the ring, where slabs lie behind each other
  bool in_bulk = false;  // each slab by one copy of one thread: what a unit reads there, past the threads
  int64_t bytes() const { return run * slabs; }
};

constexpr int64_t kMostStagingLocals = 2;  // a ring and its signals

struct Staging {
  Ref range;          // the loop whose rounds are sent ahead
  int64_t count = 1;  // of rounds between outer steps
  Ref ring;           // on-chip memory of `slots` rounds
  Ref signals;        // one for each slot; null: nothing goes in bulk
  int64_t slot_bytes = 0, slots = 0;
  std::vector<StagedRegion> regions;
  int64_t bulk_copies() const;  // of a round
};

struct StagedNest {
  Refs stores;
  std::optional<Staging> staging;
};

// Of products by the unit of a warp with weights that are chosen by what was read, on machines with such copies: what
// many blocks read comes from the second-level cache fast enough. And of all products of halves, whose columns lie on
// chip: nothing is returned where these cannot be staged. The ring is the on-chip buffer `local`, its signals the next
// one. Behind expand() and coalesce_loads(), whose loads it replaces.
StagedNest stage_reads(const Refs& stores, const Machine& machine, int64_t local);

// The products by the unit of a warpgroup, and whether the columns of all of them are on chip as they are.
Refs products_of_halves(const Refs& stores);
bool have_columns_on_chip(const Refs& stores);

}  // namespace smelt
