// What a round of a staged sum reads of memory, sent to its slot of the ring some rounds ahead (stage_reads.h).
//
//   send rounds 0 .. slots - 2, a group each
//   for rounds: wait until all groups but the last slots - 2 have arrived
//               (barrier: all threads have the round's bytes, and are done with those of the round before)
//               wait for the signal of the round's slot: what was sent in bulk
//               send round + slots - 1 where the round before lay
//               ...
#include "codegen/nest_emitter.h"
#include "graph/rules_algebra.h"

namespace smelt {

bool NestEmitter::is_staged(const Refs& ranges) const {
  return staging_ && ranges.size() == 1 && ranges[0] == staging_->range;
}

void NestEmitter::send_first_rounds() {
  if (staging_->signals)
    for (int64_t slot = 0; slot < staging_->slots; ++slot)
      add(top(), {.kind = Inst::SignalInit,
                  .src = {value(staging_->signals).id, integer(slot * kSignalBytes).id},
                  .arg = {.i = staging_->bulk_copies()}});
  for (int64_t i = 0; i + 1 < staging_->slots; ++i) send_round(integer(i), integer(i));
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

// A round that there is not is an empty group.
void NestEmitter::send_round(Value round, Value slot) {
  const Ref rounds = RangeView(staging_->range).size;
  std::optional<Value> is_round;
  if (round.depth > 0 || rounds->min < staging_->slots) is_round = alu(Op::Lt, DType::Bool, {round, value(rounds)});
  for (const StagedRegion& region : staging_->regions)
    region.in_bulk ? send_in_bulk(region, round, slot, is_round) : send(region, round, slot, is_round);
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
void NestEmitter::send(const StagedRegion& region, Value round, Value slot, const std::optional<Value>& is_round) {
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
    std::optional<Value> sends = is_round;
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
