// Writes Programs by hand, for the tests of what comes after linearize.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/program.h"

namespace smelt::test {

// Every function appends one instruction and returns its position. C++ does not say in which order
// arguments are evaluated, so where the text is compared at most one argument may append something.
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, int buffers, int64_t scratch_bytes = 0, int threads = 1)
      : program_{.name = std::move(name), .buffers = buffers, .scratch_bytes = scratch_bytes, .threads = threads} {}

  const Program& program() const { return program_; }

  int add(Instruction x) {
    program_.code.push_back(std::move(x));
    return static_cast<int>(program_.code.size()) - 1;
  }

  // --- leaves
  int buffer(int index) { return add({.kind = Inst::Buffer, .arg = {.i = index}}); }
  int scratch(int64_t offset) { return add({.kind = Inst::Scratch, .arg = {.i = offset}}); }
  int part() { return add({.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 0}}); }
  int parts() { return add({.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 1}}); }
  int symbol(const std::string& name) {
    program_.symbols.push_back(name);
    auto index = static_cast<int64_t>(program_.symbols.size()) - 1;
    return add({.kind = Inst::Symbol, .dtype = DType::I64, .arg = {.i = index}});
  }
  int integer(int64_t value, DType dtype = DType::I64) {
    return add({.kind = Inst::Value, .op = Op::Const, .dtype = dtype, .arg = {.i = value}});
  }
  int real(double value, DType dtype = DType::F32) {
    return add({.kind = Inst::Value, .op = Op::Const, .dtype = dtype, .arg = {.f = value}});
  }
  int thread_index() { return add({.kind = Inst::ThreadIndex, .dtype = DType::I64}); }
  int lane_index(DType dtype, int lanes) { return add({.kind = Inst::LaneIndex, .dtype = dtype, .lanes = lanes}); }

  // --- values; the dtype is that of the operands (Lt, Eq: bool), the lanes are the most that an
  // operand has
  int op(Op op, std::vector<int> src) {
    int lanes = 1;
    for (int x : src) lanes = std::max(lanes, at(x).lanes);
    DType dtype = op == Op::Lt || op == Op::Eq ? DType::Bool : at(op == Op::Where ? src[1] : src[0]).dtype;
    return add({.kind = Inst::Value, .op = op, .dtype = dtype, .lanes = lanes, .src = std::move(src)});
  }
  int add2(int x, int y) { return op(Op::Add, {x, y}); }
  int mul(int x, int y) { return op(Op::Mul, {x, y}); }
  int cast(int x, DType dtype) {
    return add({.kind = Inst::Value, .op = Op::Cast, .dtype = dtype, .lanes = at(x).lanes, .src = {x}});
  }
  int bitcast(int x, DType dtype) {
    return add({.kind = Inst::Value, .op = Op::Bitcast, .dtype = dtype, .lanes = at(x).lanes, .src = {x}});
  }
  int lut(int x, std::vector<int64_t> table, DType dtype) {
    return add({.kind = Inst::Value,
                .op = Op::Lut,
                .dtype = dtype,
                .lanes = at(x).lanes,
                .src = {x},
                .arg = {.list = std::move(table)}});
  }
  int lane_reduce(Op op, int x) { return add({.kind = Inst::LaneReduce, .op = op, .dtype = at(x).dtype, .src = {x}}); }

  // --- memory
  int load(DType dtype, int lanes, int pointer, int offset) {
    return add({.kind = Inst::Load, .dtype = dtype, .lanes = lanes, .src = {pointer, offset}});
  }
  int store(int pointer, int offset, int value) {
    return add({.kind = Inst::Store,
                .dtype = at(value).dtype,
                .lanes = std::max(at(value).lanes, at(offset).lanes),
                .src = {pointer, offset, value}});
  }

  int store_if(int predicate, int pointer, int offset, int value) {
    return add({.kind = Inst::Store, .dtype = at(value).dtype, .src = {pointer, offset, value, predicate}});
  }

  // --- threads of a block
  int shuffle(int value, int64_t bits) {
    return add({.kind = Inst::Shuffle, .dtype = at(value).dtype, .src = {value}, .arg = {.i = bits}});
  }
  void barrier() { add({.kind = Inst::Barrier}); }
  void copy(int from, int from_offset, int to, int to_offset, int predicate = -1) {
    std::vector<int> src = {from, from_offset, to, to_offset};
    if (predicate >= 0) src.push_back(predicate);
    add({.kind = Inst::Copy, .src = std::move(src)});
  }
  void copy_group() { add({.kind = Inst::CopyGroup}); }
  void copy_wait(int64_t left) { add({.kind = Inst::CopyWait, .arg = {.i = left}}); }

  // --- loops and accumulators
  int loop(int begin, int end) { return add({.kind = Inst::Loop, .dtype = DType::I64, .src = {begin, end}}); }
  int loop(int64_t count) {
    int begin = integer(0);
    return loop(begin, integer(count));
  }
  void end(int loop) { add({.kind = Inst::EndLoop, .src = {loop}}); }
  int acc(int initial, int lanes) {
    return add({.kind = Inst::Acc, .dtype = at(initial).dtype, .lanes = lanes, .src = {initial}});
  }
  int get(int acc) { return add({.kind = Inst::AccGet, .dtype = at(acc).dtype, .lanes = at(acc).lanes, .src = {acc}}); }
  void set(int acc, int value) {
    add({.kind = Inst::AccSet, .dtype = at(acc).dtype, .lanes = at(acc).lanes, .src = {acc, value}});
  }

 private:
  const Instruction& at(int position) const { return program_.code[static_cast<size_t>(position)]; }

  Program program_;
};

}  // namespace smelt::test
