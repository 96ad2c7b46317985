// Program: one kernel as a linear list of instructions, the last form before text.
//
//   linearize (Kernel -> Program) -> render/llvm, later render/c_style (Program -> Source)
//
// An instruction's result is named by its position in `code`. Values are scalars (lanes 1) or short vectors; where a
// scalar meets a vector in one instruction the scalar is repeated. There is no other control flow than counted loops,
// and no mutable state other than accumulators.
//
// A worker is one thread, whose values may be vectors, or a block of threads, whose values are scalars. The threads of
// a block run the same instructions, loops included: only what they store may depend on which thread it is. They share
// scratch memory, and a barrier stands wherever one reads what another has written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/node.h"

namespace smelt {

enum class Inst : uint8_t {
  Value,   // an elementwise op, Const, or Lut of ops.def: `op`, `arg` as there; operands in `src`
  Symbol,  // i64 launch value arg.i (position in `Program::symbols`), within arg.list = {min, max} if given
  Part,  // i64: number of a part (arg.i = 0), of how many (1, at most kMostParts), whether a worker begins with it (2)
  LaneIndex,    // <0, 1, ..., lanes - 1> of dtype
  ThreadIndex,  // i64 or i32: which thread of the block this is
  Buffer,       // pointer: argument arg.i of the launch; arg.list {1}: no launch of a run writes it
  Scratch,      // pointer: byte arg.i of the worker's own scratch memory (64-byte aligned), which its threads share
  // src {pointer, byte offset}; a scalar offset with lanes > 1 loads neighbouring elements, a vector offset gathers;
  // arg.i = 1: part of a stream. These loads keep their order, so that prefetchers see lines follow each other
  Load,
  // src {pointer, byte offset}: a hint that the line arg.i bytes ahead is read soon; it may lie outside of the buffer,
  // the offset itself only if arg.i is 0
  Prefetch,
  // src {pointer, byte offset}: a hint that the arg.i bytes from there on are read soon, for the cache that all share.
  // Offset and bytes are multiples of kFetchUnit, and all of them lie in the buffer. A third operand, a bool, says
  // which threads ask, each for its own; without it the first one does
  Fetch,
  // Where launches overlap: what the launches before have stored is seen behind it. Only indices, Fetch, signals, and
  // loads and copies of what no launch writes stand before. Blocks of the next launch may come from here on, or, if the
  // operand, a bool, says so, when all blocks of this one have ended; arg.i 1: before this one waits
  Await,
  // src {pointer, byte offset, value}; a scalar offset with a vector value stores neighbouring elements. In a block a
  // fourth operand, a bool, says which threads store
  Store,
  // src {pointer to memory, byte offset, pointer to scratch memory, byte offset}: kCopyBytes of each thread on their
  // way there, past its registers; both places are multiples of that. A fifth operand, a bool, says which threads send.
  // They belong to the thread's open group
  Copy,
  CopyGroup,  // closes it
  CopyWait,   // all groups of the thread but the last arg.i have arrived; other threads see them behind a barrier
  // src {pointer to memory, byte offset, pointer to scratch memory, byte offset, pointer to a signal, byte offset}:
  // arg.i bytes, a multiple of kCopyBytes as both places are, by a single instruction of a thread. When they are there
  // the signal counts one. A seventh operand, a bool, says which threads send
  BulkCopy,
  // src {pointer to scratch memory, byte offset}: the first thread makes a signal there, kSignalBytes long, whose
  // rounds are arg.i copies each. What threads did with scratch memory before is done when copies come there. A third
  // operand, a bool that is the same for all threads, says whether it does
  SignalInit,
  // src {pointer to a signal, byte offset, number of a round}: until the copies of that round have arrived, which the
  // thread then sees. Rounds are waited for one after the other
  SignalWait,
  LaneReduce,  // src {vector}: all lanes combined to a scalar by `op` (ReduceSum: pairwise halves; ReduceMax)
  Shuffle,     // src {value}: that of the thread of the same warp whose index differs in the bits arg.i
  WarpItem,    // src {value}: that of thread arg.i of the same warp
  // No thread of the block goes on before all are here; what they stored before is seen behind it. arg.i: in a loop of
  // the first threads only, how many these are. arg.list {1}: a unit sees what they stored, too
  Barrier,
  // A product of small matrices of the shape arg.list (graph/matrix_shape.h). In memory: src {pointer, byte offset of
  // a, pointer, byte offset of b}, and n lanes. In fragments: src {words of a, words of b, sums so far or none} of a
  // thread; of halves {words of a, pointer to scratch memory, byte offset of b, sums so far or none}
  MatrixDot,
  MatrixItem,  // src {matrix dot}: row arg.i of it, in fragments sum arg.i of a thread
  // src {begin, end}: an index, i64 or i32 as they are, running over [begin, end); empty when end <= begin. Both lie
  // within arg.list = {min, max} if given. arg.i: how many threads of the block run it, the first ones; 0: all
  Loop,
  EndLoop,  // src {loop}
  Acc,      // src {initial value}: a register that can change, of dtype x lanes
  AccGet,   // src {acc}: its value now
  AccSet,   // src {acc, value}
};

constexpr int64_t kFetchUnit = 16;
constexpr int64_t kCopyBytes = 16;
constexpr int64_t kSignalBytes = 8;
constexpr int kWarp = 32;  // threads that run in step and can read each other's values

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
  int threads = 1;                   // of a worker: 1, or a multiple of kWarp
  int64_t tasks = 1;                 // that workers share out, at most
  int64_t blocks = 0;                // that a launch has, at least one a task; 0: as many as the device likes
  bool has_prologue = false;         // each block makes something for itself before its tasks
  std::vector<Instruction> code;
};

// Whether launches of it wait for those before by themselves.
bool awaits(const Program& program);

// One instruction a line, loops indented; for DEBUG and golden tests.
std::string print(const Program& program);

}  // namespace smelt
