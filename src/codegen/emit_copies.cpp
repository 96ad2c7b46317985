// What a round of a staged sum reads of memory, sent to its slot of the ring some rounds ahead (stage_reads.h).
//
//   send what rounds 0 .. slots - 2 of the block's first task read of weights, before the launch waits
//   send rounds 0 .. slots - 2, a group each
//   for rounds: wait until all groups but the last slots - 2 have arrived
//               (barrier: all threads have the round's bytes, and are done with those of the round before)
//               wait for the signal of the round's slot: what was sent in bulk
//               send round + slots - 1 where the round before lay
//               ...
#include <algorithm>

#include "codegen/block_threads.h"
#include "codegen/nest_emitter.h"
#include "graph/args.h"
#include "graph/rules_algebra.h"

namespace smelt {

bool NestEmitter::is_staged(const Refs& ranges) const {
  return staging_ && ranges.size() == 1 && ranges[0] == staging_->range;
}

namespace {

// What no launch writes, and where it lies only the task says.
bool is_of_weights(const StagedRegion& region) {
  return !region.in_bulk && is_given(region.buffer) && !reads_memory(region.begin);
}

}  // namespace

// Where each task has a block of its own.
bool NestEmitter::sends_weights_early(const ExpandedNest& nest) const {
  return machine_.overlaps_launches && program_.blocks > 0 && nest.staging && !nest.is_local && !is_tile() &&
         std::any_of(nest.staging->regions.begin(), nest.staging->regions.end(), is_of_weights);
}

// Whether the block has its first task of all in this nest, so that no other one needs the ring before.
Value NestEmitter::begins_with(const Refs& tasks) {
  const Value part = of_part(PartValue::Index), before = value(tasks_before_);
  const auto less = [&](Value x, Value y) { return alu(Op::Lt, DType::Bool, {x, y}); };
  const Value is_before_end = less(part, alu(Op::Add, DType::I64, {before, total_of(tasks)}));
  if (const_int(tasks_before_) == 0) return is_before_end;
  return alu(Op::And, DType::Bool, {is_before_end, less(before, alu(Op::Add, DType::I64, {part, integer(1)}))});
}

// Of a task of the nest, by how many the block has had of it.
Value NestEmitter::lacks_weights(Value round) {
  const Value begins = begins_with(task_ranges(nests_[0].stores)),
              is_first = alu(Op::Lt, DType::Bool, {round, integer(1)});
  return alu(Op::Not, DType::Bool, {alu(Op::And, DType::Bool, {begins, is_first})});
}

// They belong to the first group that is closed.
void NestEmitter::send_first_weights(const ExpandedNest& nest, const Refs& tasks) {
  staging_ = &*nest.staging;
  nest_threads_ = std::max(threads_of(nest.stores), kWarp);
  know_first_task(tasks);
  const Value begins = begins_with(tasks);
  init_signals(begins);
  for (int64_t i = 0; i + 1 < staging_->slots; ++i) {
    const std::optional<Value> is_wanted = both(is_round(integer(i)), begins);
    for (const StagedRegion& region : staging_->regions)
      if (is_of_weights(region)) send(region, integer(i), integer(i), is_wanted);
  }
  staging_ = nullptr;
}

void NestEmitter::init_signals(const std::optional<Value>& is_wanted) {
  if (!staging_->signals) return;
  for (int64_t slot = 0; slot < staging_->slots; ++slot) {
    Instruction init{.kind = Inst::SignalInit,
                     .src = {value(staging_->signals).id, integer(slot * kSignalBytes).id},
                     .arg = {.i = staging_->bulk_copies()}};
    if (is_wanted) init.src.push_back(is_wanted->id);
    add(top(), std::move(init));
  }
}

void NestEmitter::send_first_rounds() {
  init_signals(wants_weights_);
  for (int64_t i = 0; i + 1 < staging_->slots; ++i) send_round(integer(i), integer(i), wants_weights_);
}

void NestEmitter::send_next_round() {
  add(top(), {.kind = Inst::CopyWait, .arg = {.i = staging_->slots - 2}});
  if (staging_->signals) wait_for_signal(value(staging_->range));
  const Value round = alu(Op::Add, DType::I64, {value(staging_->range), integer(staging_->slots - 1)});
  send_round(round, alu(Op::Mod, DType::I64, {round, integer(staging_->slots)}));
}

void NestEmitter::wait_for_signal(Value round) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const Value slots = integer(staging_->slots), at = i64(Op::Mul, i64(Op::Mod, round, slots), integer(kSignalBytes));
  add(top(), {.kind = Inst::SignalWait, .src = {value(staging_->signals).id, at.id, i64(Op::Div, round, slots).id}});
}

// None: there is such a round in any case.
std::optional<Value> NestEmitter::is_round(Value round) {
  const Ref rounds = RangeView(staging_->range).size;
  if (round.depth == 0 && rounds->min >= staging_->slots) return std::nullopt;
  return alu(Op::Lt, DType::Bool, {round, value(rounds)});
}

std::optional<Value> NestEmitter::both(const std::optional<Value>& x, const std::optional<Value>& y) {
  if (!x || !y) return x ? x : y;
  return alu(Op::And, DType::Bool, {*x, *y});
}

// A round that there is not is an empty group.
void NestEmitter::send_round(Value round, Value slot, const std::optional<Value>& wants_weights) {
  const std::optional<Value> exists = is_round(round);
  for (const StagedRegion& region : staging_->regions) {
    if (region.in_bulk)
      send_in_bulk(region, round, slot, exists);
    else
      send(region, round, slot, is_of_weights(region) ? both(exists, wants_weights) : exists);
  }
  add(top(), {.kind = Inst::CopyGroup});
}

// Where the first slab of a round begins.
Value NestEmitter::begin_of(const StagedRegion& region, Value round) {
  const auto i64 = [&](Op op, Value x, int64_t y) { return alu(op, DType::I64, {x, integer(y)}); };
  const auto add_step = [&](Value at, Value rounds, int64_t step) {
    return step == 0 ? at : alu(Op::Add, DType::I64, {at, i64(Op::Mul, rounds, step)});
  };
  const auto [outer, inner] = region.steps;
  const int64_t count = staging_->count;
  if (outer == count * inner) return add_step(value(region.begin), round, inner);
  return add_step(add_step(value(region.begin), i64(Op::Div, round, count), outer), i64(Op::Mod, round, count), inner);
}

// A slab by each of the first threads of as many warps as there are: in a warp they would go one after the other.
void NestEmitter::send_in_bulk(const StagedRegion& region, Value round, Value slot,
                               const std::optional<Value>& is_round) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const auto is = [&](Op op, Value x, Value y) { return alu(op, DType::Bool, {x, y}); };
  const int64_t warps = nest_threads_ / kWarp, each = (region.slabs + warps - 1) / warps;
  const Value lane = i64(Op::Mod, thread(), integer(kWarp)), warp = i64(Op::Div, thread(), integer(kWarp)),
              slab = i64(Op::Add, i64(Op::Mul, lane, integer(warps)), warp);
  Value sends = is(Op::Lt, lane, integer(each));
  if (each * warps != region.slabs || nest_threads_ < program_.threads)
    sends = is(Op::And, sends, is(Op::Lt, slab, integer(region.slabs)));
  if (is_round) sends = is(Op::And, sends, *is_round);
  const Value from = i64(Op::Add, begin_of(region, round), i64(Op::Mul, slab, integer(region.stride))),
              to = i64(Op::Add, i64(Op::Mul, slot, integer(staging_->slot_bytes)),
                       i64(Op::Add, i64(Op::Mul, slab, integer(region.run)), integer(region.at)));
  add(top(), {.kind = Inst::BulkCopy,
              .src = {value(region.buffer).id, from.id, value(staging_->ring).id, to.id, value(staging_->signals).id,
                      i64(Op::Mul, slot, integer(kSignalBytes)).id, sends.id},
              .arg = {.i = region.run}});
}

// Pieces that lie side by side go to threads side by side.
void NestEmitter::send(const StagedRegion& region, Value round, Value slot, const std::optional<Value>& is_wanted) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const int64_t pieces = region.bytes() / kCopyBytes, of_slab = region.run / kCopyBytes;
  const Value buffer = value(region.buffer), ring = value(staging_->ring), from_round = begin_of(region, round),
              to_slot = i64(Op::Mul, slot, integer(staging_->slot_bytes));
  for (int64_t first = 0; first < pieces; first += nest_threads_) {
    const Value piece = i64(Op::Add, thread(), integer(first)), slab = i64(Op::Div, piece, integer(of_slab)),
                within = i64(Op::Mul, i64(Op::Mod, piece, integer(of_slab)), integer(kCopyBytes));
    const Value place = i64(Op::Add, i64(Op::Mul, slab, integer(region.stride)), within),
                from = i64(Op::Add, from_round, place),
                to = i64(Op::Add, to_slot, i64(Op::Add, i64(Op::Mul, piece, integer(kCopyBytes)), integer(region.at)));
    std::optional<Value> sends = is_wanted;
    const int64_t left = std::min(nest_threads_, pieces - first);
    if (left < program_.threads) {
      const Value has_piece = alu(Op::Lt, DType::Bool, {thread(), integer(left)});
      sends = sends ? alu(Op::And, DType::Bool, {*sends, has_piece}) : has_piece;
    }
    Instruction copy{.kind = Inst::Copy, .src = {buffer.id, from.id, ring.id, to.id}};
    if (sends) copy.src.push_back(sends->id);
    add(top(), std::move(copy));
  }
}

}  // namespace smelt
