// BlockShares: which tasks a block has, found out before its launch waits for those before it.
//
// Blocks take tasks in turn, so where they begin and how many they have are quotients by the number of blocks. A GPU
// divides in some 150 cycles, and kernels of several nests do so many times, one behind the other. Nothing of it
// depends on memory: each quotient is computed once, where the launch waits anyway.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "codegen/known_bounds.h"
#include "codegen/program.h"
#include "render/llvm_writer.h"

namespace smelt {

class BlockShares {
 public:
  BlockShares(const Program& program, const std::vector<Bounds>& bounds, const Machine& machine, LlvmWriter& out);

  // The value at `position`, if it is a quotient or remainder of what only depends on the block's number and on how
  // many blocks there are. The first who asks for it has it computed there.
  std::optional<IrValue> find(int position);
  // Has all of them computed here, that were not yet.
  void find_all();

 private:
  bool is_of_block(const Instruction& x) const;
  bool divides_by_blocks(int position) const;
  IrValue value(int position);
  IrValue part(const Instruction& x);
  IrValue pinned(const IrValue& x);

  const Program& program_;
  const std::vector<Bounds>& bounds_;  // by position
  const Machine& machine_;
  LlvmWriter& out_;
  std::vector<bool> is_of_block_;         // by position
  std::map<std::string, IrValue> known_;  // by what they are computed from
};

}  // namespace smelt
