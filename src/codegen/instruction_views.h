// Views: the operands of instructions by name. Which operand is what is written in program.h, checked by
// program_verify.cpp, and known only here. Those of elementwise ops are in the order of the op.
#pragma once

#include "codegen/program.h"

namespace smelt {

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

struct LoopView {
  explicit LoopView(const Instruction& loop) : begin(loop.src[0]), end(loop.src[1]) {}
  int begin, end;
};

// A loop that runs once or not at all.
inline bool is_condition(const Instruction& loop) { return loop.arg.list == std::vector<int64_t>{0, 1}; }

struct AccSetView {
  explicit AccSetView(const Instruction& set) : acc(set.src[0]), value(set.src[1]) {}
  int acc, value;
};

// Of an EndLoop its loop, of an AccGet its accumulator, of a MatrixItem the product; what a LaneReduce combines, a
// Shuffle passes on and an Acc begins with.
inline int only_operand(const Instruction& x) { return x.src[0]; }

}  // namespace smelt
