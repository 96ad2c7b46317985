// What a task reads, sent on chip as a whole (task_copies.h).
//
//   init signal, 2 copies                  before the launch waits
//   bulk_copy, bulk_copy                   for the first task, if the block has one
//   await
//   for tasks: copy ...                    by all threads: what launches have stored
//              bulk_copy, bulk_copy        for a further task, over what the one before has read
//              wait for the copies of all threads, then for the signal
#include "codegen/nest_emitter.h"
#include "graph/views.h"

namespace smelt {

// By the first thread: one instruction for all of it.
void NestEmitter::send_in_bulk(const TaskCopies& copies, const TaskCopy& copy, Value is_wanted) {
  const Value is_first = alu(Op::Eq, DType::Bool, {thread(), integer(0)}),
              sends = alu(Op::And, DType::Bool, {is_first, is_wanted});
  add(top(), {.kind = Inst::BulkCopy,
              .src = {value(copy.buffer).id, value(copy.begin).id, value(copy.memory).id, integer(0).id,
                      value(copies.signal).id, integer(0).id, sends.id},
              .arg = {.i = copy.bytes}});
}

// Pieces that lie side by side go to threads side by side.
void NestEmitter::send_by_threads(const TaskCopy& copy) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const int64_t pieces = copy.bytes / kCopyBytes, threads = program_.threads - idle_threads();
  for (int64_t first = 0; first < pieces; first += threads) {
    const Value at = i64(Op::Mul, i64(Op::Add, thread(), integer(first)), integer(kCopyBytes));
    Instruction sent{
        .kind = Inst::Copy,
        .src = {value(copy.buffer).id, i64(Op::Add, value(copy.begin), at).id, value(copy.memory).id, at.id}};
    if (pieces - first < threads) sent.src.push_back(alu(Op::Lt, DType::Bool, {thread(), integer(pieces - first)}).id);
    add(top(), std::move(sent));
  }
}

// A block without a task in this nest would not wait for what it sends.
void NestEmitter::send_for_first_task(const TaskCopies& copies, const Refs& tasks) {
  add(top(),
      {.kind = Inst::SignalInit, .src = {value(copies.signal).id, integer(0).id}, .arg = {.i = copies.of_weights()}});
  const Value first = first_task(tasks_before_, of_part(PartValue::Index), of_part(PartValue::Count)),
              has_task = alu(Op::Lt, DType::Bool, {first, total_of(tasks)});
  know_first_task(tasks);
  for (const TaskCopy& copy : copies.copies)
    if (copy.is_of_weights) send_in_bulk(copies, copy, has_task);
}

// `round`: how many tasks the block has had.
void NestEmitter::send_for_task(const TaskCopies& copies, Value round) {
  const bool have_threads_sent = copies.of_weights() < std::ssize(copies.copies);
  for (const TaskCopy& copy : copies.copies)
    if (!copy.is_of_weights) send_by_threads(copy);
  if (have_threads_sent) add(top(), {.kind = Inst::CopyGroup});
  const Value is_further = alu(Op::Lt, DType::Bool, {integer(0), round});
  for (const TaskCopy& copy : copies.copies)
    if (copy.is_of_weights) send_in_bulk(copies, copy, is_further);
  if (have_threads_sent) add(top(), {.kind = Inst::CopyWait, .arg = {.i = 0}});
  add(top(), {.kind = Inst::SignalWait, .src = {value(copies.signal).id, integer(0).id, round.id}});
}

}  // namespace smelt
