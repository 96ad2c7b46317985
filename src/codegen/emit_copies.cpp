// What a round of a staged sum reads of memory, sent to its slot of the ring some rounds ahead (stage_reads.h).
//
//   send rounds 0 .. slots - 2, a group each
//   for rounds: wait until all groups but the last slots - 2 have arrived
//               (barrier: all threads have the round's bytes, and are done with those of the round before)
//               send round + slots - 1 where the round before lay
//               ...
#include "codegen/nest_emitter.h"
#include "graph/rules_algebra.h"

namespace smelt {

bool NestEmitter::is_staged(const Refs& ranges) const {
  return staging_ && ranges.size() == 1 && ranges[0] == staging_->range;
}

void NestEmitter::send_first_rounds() {
  for (int64_t i = 0; i + 1 < staging_->slots; ++i) send_round(integer(i), integer(i));
}

void NestEmitter::send_next_round() {
  add(top(), {.kind = Inst::CopyWait, .arg = {.i = staging_->slots - 2}});
  const Value round = alu(Op::Add, DType::I64, {value(staging_->range), integer(staging_->slots - 1)});
  send_round(round, alu(Op::Mod, DType::I64, {round, integer(staging_->slots)}));
}

// A round that there is not is an empty group.
void NestEmitter::send_round(Value round, Value slot) {
  const Ref rounds = RangeView(staging_->range).size;
  std::optional<Value> is_round;
  if (round.depth > 0 || rounds->min < staging_->slots) is_round = alu(Op::Lt, DType::Bool, {round, value(rounds)});
  for (const StagedRegion& region : staging_->regions) send(region, round, slot, is_round);
  add(top(), {.kind = Inst::CopyGroup});
}

// Pieces that lie side by side go to threads side by side.
void NestEmitter::send(const StagedRegion& region, Value round, Value slot, const std::optional<Value>& is_round) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const int64_t pieces = region.bytes() / kCopyBytes, of_slab = region.run / kCopyBytes;
  const Value buffer = value(region.buffer), ring = value(staging_->ring), begin = value(region.begin),
              from_round = i64(Op::Mul, round, integer(region.step)),
              to_slot = i64(Op::Mul, slot, integer(staging_->slot_bytes));
  for (int64_t first = 0; first < pieces; first += nest_threads_) {
    const Value piece = i64(Op::Add, thread(), integer(first)), slab = i64(Op::Div, piece, integer(of_slab)),
                within = i64(Op::Mul, i64(Op::Mod, piece, integer(of_slab)), integer(kCopyBytes));
    const Value place = i64(Op::Add, i64(Op::Mul, slab, integer(region.stride)), within),
                from = i64(Op::Add, i64(Op::Add, begin, from_round), place),
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
