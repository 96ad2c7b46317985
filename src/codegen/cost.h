// Cost: what a kernel has to move and to compute, from its tree alone; no options, no machine.
//
// Bytes are distinct bytes of each buffer: what a perfect cache would bring in. A weight that is read through indices
// found in memory (the rows of chosen experts) counts what the indices can reach, not all of it. Operations are counted
// once per combination of the ranges that they depend on, as invariant code motion leaves them; arithmetic on addresses
// is left out, conversions count as integer operations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "graph/node.h"

namespace smelt {

struct BufferCost {
  double read = 0;  // bytes
  double written = 0;
  bool gathered = false;  // addresses depend on values in memory
};

struct KernelCost {
  std::vector<BufferCost> buffers;  // by Param number
  double read = 0, written = 0;     // of all buffers together
  double float_ops = 0, int_ops = 0;
  double byte_ops = 0;  // of the integer ones: products of bytes and their sums, which processors have instructions for
  double bytes() const { return read + written; }
  double operations() const { return float_ops + int_ops; }
};

// Values of the symbols that the tree names, such as {"chunks", 1}. One that is not given counts with its maximum.
using SymbolValues = std::map<std::string, int64_t>;

// Numbers that stand for all elements of a buffer, by Param number: positions, which say how far attention reads.
using BufferContents = std::map<int64_t, int64_t>;

// REQUIRES: `tree` is a kernel as make_schedule() leaves it.
KernelCost cost_of(Ref tree, const SymbolValues& symbols = {}, const BufferContents& contents = {});

// What options have made of a kernel; execution.h tells of its program.
struct KernelShape {
  int64_t tasks = 0;        // to share out among workers, of the nest that has most operations
  double scalar_share = 0;  // of the operations: those of nests without SIMD lanes
};
// REQUIRES: opts as generate() returned them for this tree and machine.
KernelShape shape_of(Ref tree, const KernelOpts& opts, const Machine& machine, const SymbolValues& symbols = {});

// What a kernel does, in a few words: "rms norm, 768 sums of 2048, top 4 of 64". Symbols stand as their names.
std::string operations_in_words(Ref tree);

}  // namespace smelt
