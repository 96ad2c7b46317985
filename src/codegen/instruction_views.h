// Views: the operands and arguments of instructions by name. Which is what is written in program.h, checked by
// program_verify.cpp, and known only here. Operands of elementwise ops are in the order of the op.
#pragma once

#include "codegen/program.h"
#include "graph/bounds.h"
#include "graph/matrix_shape.h"

namespace smelt {

// Whether other instructions may name it.
inline bool has_value(Inst kind) {
  return kind != Inst::Store && kind != Inst::Prefetch && kind != Inst::Fetch && kind != Inst::Await &&
         kind != Inst::Copy && kind != Inst::CopyGroup && kind != Inst::CopyWait && kind != Inst::Barrier &&
         kind != Inst::BulkCopy && kind != Inst::SignalInit && kind != Inst::SignalWait && kind != Inst::EndLoop &&
         kind != Inst::AccSet;
}

// Whether the result of the op is of another dtype than its operands: a bool.
inline bool is_comparison(Op op) { return op == Op::Lt || op == Op::Eq; }

inline bool is_constant(const Instruction& x) { return x.kind == Inst::Value && x.op == Op::Const; }

// Where a Load, a Store or a Prefetch goes.
struct AccessView {
  explicit AccessView(const Instruction& access) : pointer(access.src[0]), offset(access.src[1]) {}
  int pointer, offset;
};

struct StoreInstView {
  explicit StoreInstView(const Instruction& store)
      : pointer(store.src[0]),
        offset(store.src[1]),
        value(store.src[2]),
        predicate(store.src.size() > 3 ? store.src[3] : -1) {}
  int pointer, offset, value;
  int predicate;  // says which threads store; -1: all do
};

struct CopyView {
  explicit CopyView(const Instruction& copy)
      : from(copy.src[0]),
        from_offset(copy.src[1]),
        to(copy.src[2]),
        to_offset(copy.src[3]),
        predicate(copy.src.size() > 4 ? copy.src[4] : -1) {}
  int from, from_offset, to, to_offset;
  int predicate;  // says which threads send; -1: all do
};

struct BulkCopyView {
  explicit BulkCopyView(const Instruction& copy)
      : from(copy.src[0]),
        from_offset(copy.src[1]),
        to(copy.src[2]),
        to_offset(copy.src[3]),
        signal(copy.src[4]),
        signal_offset(copy.src[5]),
        predicate(copy.src.size() > 6 ? copy.src[6] : -1),
        bytes(copy.arg.i) {}
  int from, from_offset, to, to_offset, signal, signal_offset;
  int predicate;  // says which threads send; -1: all do
  int64_t bytes;
};

struct SignalWaitView {
  explicit SignalWaitView(const Instruction& wait) : pointer(wait.src[0]), offset(wait.src[1]), round(wait.src[2]) {}
  int pointer, offset, round;
};

// Of a CopyWait: how many groups may still be on their way.
inline int64_t groups_left(const Instruction& wait) { return wait.arg.i; }

// Of an Await: whether blocks of the next launch may come only when those of this one have ended; -1: they never wait.
inline int keeps_next_back(const Instruction& await) { return await.src.empty() ? -1 : await.src[0]; }

// Of an Await: whether blocks of the next launch may come before this one waits.
inline bool is_eager(const Instruction& await) { return await.arg.i == 1; }

// What a Part says of a part.
enum class PartValue : uint8_t {
  Index,   // its number
  Count,   // of how many parts it is one, at most kMostParts
  Begins,  // 1 if its worker begins with it, else 0; where workers are single threads
};
constexpr int64_t kPartValues = 3;
inline PartValue part_value(const Instruction& part) { return static_cast<PartValue>(part.arg.i); }

// What a Symbol, and both ends of a Loop, are said to be within.
inline Bounds given_bounds(const Instruction& x) {
  return x.arg.list.empty() ? kNoBounds : Bounds{x.arg.list[0], x.arg.list[1]};
}

struct LoopView {
  explicit LoopView(const Instruction& loop)
      : begin(loop.src[0]), end(loop.src[1]), threads(loop.arg.i), within(given_bounds(loop)) {}
  int begin, end;
  int64_t threads;  // of the block that run it, the first ones; 0: all
  Bounds within;    // both ends
};

// A loop that runs once or not at all.
inline bool is_condition(const Instruction& loop) { return given_bounds(loop) == Bounds{0, 1}; }

// A loop that not all threads of the block run.
inline bool is_loop_of_some(const Instruction& x) { return x.kind == Inst::Loop && LoopView(x).threads > 0; }

// How many threads wait at a Barrier, the first ones; 0: all of the block.
inline int64_t threads_waiting(const Instruction& barrier) { return barrier.arg.i; }
// Whether a unit reads behind it what threads have stored on chip before it.
inline bool shows_unit(const Instruction& barrier) { return !barrier.arg.list.empty(); }

// Whether a Load is part of a stream.
inline bool is_of_stream(const Instruction& load) { return load.arg.i != 0; }

// Of a MatrixDot.
inline MatrixShape matrix_shape(const Instruction& product) { return matrix_shape(product.arg.list); }

struct AccSetView {
  explicit AccSetView(const Instruction& set) : acc(set.src[0]), value(set.src[1]) {}
  int acc, value;
};

// Of an EndLoop its loop, of an AccGet its accumulator, of a MatrixItem the product; what a LaneReduce combines, a
// Shuffle passes on and an Acc begins with.
inline int only_operand(const Instruction& x) { return x.src[0]; }

}  // namespace smelt
