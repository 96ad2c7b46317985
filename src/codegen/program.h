// Program: one kernel as a linear list of instructions, the last form before text.
//
//   linearize (Kernel -> Program) -> render/llvm, later render/c_style (Program -> Source)
//
// An instruction's result is named by its position in `code`. Values are scalars (lanes 1) or short vectors; where a
// scalar meets a vector in one instruction the scalar is repeated. There is no other control flow than counted loops,
// and no mutable state other than accumulators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/node.h"

namespace smelt {

enum class Inst : uint8_t {
  Value,   // an elementwise op, Const, or Lut of ops.def: `op`, `arg` as there; operands in `src`
  Symbol,  // i64 launch value arg.i (position in `Program::symbols`)
  Part,    // i64: which worker this is (arg.i = 0) or how many there are (arg.i = 1)
  LaneIndex,  // <0, 1, ..., lanes - 1> of dtype
  Buffer,     // pointer: argument arg.i of the launch
  Scratch,    // pointer: byte arg.i of the worker's own scratch memory (64-byte aligned)
  // src {pointer, byte offset}; a scalar offset with lanes > 1 loads neighbouring elements, a vector offset gathers;
  // arg.i = 1: part of a stream. These loads keep their order, so that prefetchers see lines follow each other
  Load,
  // src {pointer, byte offset}: a hint that the line arg.i bytes ahead is read soon; it may lie outside of the buffer,
  // the offset itself only if arg.i is 0
  Prefetch,
  Store,  // src {pointer, byte offset, value}; a scalar offset with a vector value stores neighbouring elements
  LaneReduce,  // src {vector}: all lanes combined to a scalar by `op` (ReduceSum: pairwise halves; ReduceMax)
  // src {pointer, byte offset of a, pointer, byte offset of b}: a product of matrices in memory, of the shape arg.list
  // (graph/matrix_shape.h), whose `lanes` these are
  MatrixDot,
  MatrixRow,  // src {matrix dot}: row arg.i of it, i32
  Loop,       // src {begin, end}: i64 index running over [begin, end); empty when end <= begin
  EndLoop,    // src {loop}
  Acc,        // src {initial value}: a register that can change, of dtype x lanes
  AccGet,     // src {acc}: its value now
  AccSet,     // src {acc, value}
};

struct Instruction {
  Inst kind;
  Op op = Op::Const;          // for Value and LaneReduce
  DType dtype = DType::Void;  // of the result; of the value for Store
  int lanes = 1;
  std::vector<int> src;  // positions of earlier instructions
  Arg arg;
};

struct Program {
  std::string name;                  // the entry point
  std::vector<std::string> symbols;  // names of the launch values
  int buffers = 0;                   // number of buffer arguments
  int64_t scratch_bytes = 0;         // per worker
  std::vector<Instruction> code;
};

// One instruction a line, loops indented; for DEBUG and golden tests.
std::string print(const Program& program);

}  // namespace smelt
