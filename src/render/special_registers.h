// What a thread is told: which thread and block it is, and of how many blocks; values of the launch.
#pragma once

#include <string>

#include "codegen/instruction_views.h"
#include "render/llvm_writer.h"

namespace smelt {

inline std::string special_function(LlvmWriter& out, const std::string& name) {
  const std::string function = "@llvm.nvvm.read.ptx.sreg." + name;
  out.declare("declare i32 " + function + "()");
  return function;
}

// Of a Part or ThreadIndex. A constant, where the program says how many blocks a launch has.
inline IrValue special_register(LlvmWriter& out, const Program& program, const Instruction& x) {
  const bool is_part = x.kind == Inst::Part, is_index = is_part && part_value(x) == PartValue::Index;
  if (is_part && !is_index && program.blocks > 0) return ir_int(program.blocks, x.dtype);
  const std::string name = is_index ? "ctaid.x" : is_part ? "nctaid.x" : "tid.x";
  IrValue result = out.emit(DType::I32, 1, "call i32 " + special_function(out, name) + "()");
  if (x.dtype == DType::I64) result = out.emit(DType::I64, 1, "zext i32 " + result.text + " to i64");
  result.non_negative = true;
  return result;
}

inline IrValue launch_value(LlvmWriter& out, int64_t index) {
  const std::string at =
      out.emit("getelementptr inbounds i64, ptr addrspace(1) %symbols, i64 " + std::to_string(index));
  return out.emit(DType::I64, 1, "load i64, ptr addrspace(1) " + at + ", align 8, !invariant.load !0");
}

}  // namespace smelt
