// EarlyValues: what a block computes before its launch waits for those before it.
//
// Which tasks a block has, and where in memory they and its threads begin, depends on nothing that is stored: numbers
// of the block and of the thread, how many blocks there are, values of the launch, and what no launch writes, such as
// the numbers of a sequence's pages. Behind the wait each such step is one more in front of the first load. So all of
// them are computed where the block waits anyway. Where launches do not wait, or blocks have several tasks, this is
// done for quotients by the number of blocks alone, which kernels of several nests use many times: a GPU divides in
// some 150 cycles.
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

class EarlyValues {
 public:
  // `bounds`: as it is launched.
  EarlyValues(const Program& program, const std::vector<Bounds>& bounds, const Machine& machine, LlvmWriter& out);

  // The value at `position`, if it is one of those. The first who asks for it has it computed there.
  std::optional<IrValue> find(int position);
  // Has all of them computed here, that were not yet.
  void find_all();

 private:
  const Instruction& code(int position) const { return program_.code[static_cast<size_t>(position)]; }
  bool is_early(int position) const { return is_early_[static_cast<size_t>(position)]; }
  bool varies(int position) const { return varies_[static_cast<size_t>(position)]; }
  void note(const Instruction& x);
  bool can_be_early(const Instruction& x) const;
  bool is_given_load(const Instruction& x) const;
  bool divides_by_blocks(const Instruction& x) const;
  void find_wanted();
  IrValue value(int position);
  IrValue computed(int position);
  IrValue special(const Instruction& x);
  IrValue loaded(int position);
  IrValue pinned(const IrValue& x);

  const Program& program_;
  const std::vector<Bounds>& bounds_;  // by position
  const Machine& machine_;
  LlvmWriter& out_;
  std::vector<bool> is_early_, varies_, is_wanted_;  // by position; constants do not vary
  std::vector<int> open_;                            // loops around what is noted
  std::map<int, std::vector<int>> loops_of_load_;    // by position of an early load
  std::vector<std::optional<IrValue>> values_;       // by position
  std::map<std::string, IrValue> known_;             // by what they are computed from
};

}  // namespace smelt
