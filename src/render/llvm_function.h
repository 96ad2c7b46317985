// FunctionRenderer: the part of a program's function in LLVM IR that is the same on every machine: arithmetic, loops,
// accumulators. What memory, arguments and threads are, its children say: llvm.cpp for CPUs, nvptx.cpp for GPUs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/known_bounds.h"
#include "codegen/program.h"
#include "render/llvm.h"
#include "render/llvm_dot.h"
#include "render/llvm_metadata.h"
#include "render/llvm_writer.h"

namespace smelt {

class FunctionRenderer {
 protected:
  FunctionRenderer(const Program& program, const Machine& machine);
  virtual ~FunctionRenderer() = default;

  // All instructions, in order.
  void render_body();
  // What stands in front of the function: constants and declarations.
  std::string preamble() const;

  // An instruction that reads or writes memory, arguments or other threads.
  virtual IrValue machine_instruction(int position, const Instruction& x) = 0;

  // An instruction that computes.
  virtual IrValue elementwise(int position, const Instruction& x);
  // Whether this thread runs the loop, an i1; empty: every one does.
  virtual std::string runs(const Instruction&) { return ""; }

  const IrValue& value(int position) const { return values_[static_cast<size_t>(position)]; }
  const Bounds& bounds(int position) const { return bounds_[static_cast<size_t>(position)]; }
  const Instruction& code(int position) const { return program_.code[static_cast<size_t>(position)]; }
  // The argument that a Load or Store refers to; -1 for scratch memory.
  int buffer_of(const Instruction& x) const;
  bool is_stored(int buffer) const { return stored_.contains(buffer); }
  // A loaded value as what it is in registers: bool is a byte in memory.
  IrValue from_memory(const Instruction& x, const std::string& loaded);

  const Program& program_;
  const Machine& machine_;
  const std::vector<Bounds> bounds_;  // by position
  Metadata metadata_;
  LlvmWriter out_;

 private:
  void instruction(int position, const Instruction& x);
  IrValue sum_of_products(int position, const Instruction& x);
  bool goes_on(int position) const;
  IrValue widened(const Instruction& x, size_t operand);  // one word is that of all lanes
  std::vector<IrValue> operands(const Instruction& x) const;
  static IrValue lane_index(const Instruction& x);
  IrValue begin_loop(int position, const Instruction& x);
  bool always_runs(const Instruction& x) const;
  void end_loop(int position);
  IrValue accumulator(int position, const Instruction& x);
  IrValue get(const Instruction& x);
  void write(const IrValue& acc, const IrValue& x);

  // A sum of products that the next one goes on with, and nobody else reads.
  struct OpenSum {
    IrValue sum;
    PairSums more;  // to be added
  };

  std::vector<IrValue> values_;  // by position
  std::vector<int> readers_;     // how many, by position
  std::vector<int> dots_from_;   // by position: a dot4 that starts from this value; -1: none
  std::map<int, OpenSum> open_;  // by position
  std::set<int> stored_;         // buffers that are written to
};

}  // namespace smelt
