#include "render/llvm_writer.h"

#include <bit>
#include <cstdio>

#include "base/ensure.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

std::string element_type(DType dtype) {
  switch (dtype) {
    case DType::Void: break;
    case DType::Bool: return "i1";
    case DType::I8:
    case DType::U8: return "i8";
    case DType::I16:
    case DType::U16:
    case DType::F16:
    case DType::BF16: return "i16";
    case DType::I32:
    case DType::U32: return "i32";
    case DType::I64: return "i64";
    case DType::F32: return "float";
    case DType::F64: return "double";
  }
  ENSURE(false, "void has no LLVM type");
  return {};
}

std::string vector_type(const std::string& element, int lanes) {
  return lanes == 1 ? element : "<" + std::to_string(lanes) + " x " + element + ">";
}

std::string repeated(const std::string& literal, DType dtype, int lanes) {
  return lanes == 1 ? literal : "splat (" + element_type(dtype) + " " + literal + ")";
}

std::string int_literal(int64_t value, DType dtype) {
  if (dtype == DType::Bool) return value ? "true" : "false";
  return std::to_string(value);
}

// LLVM writes floats as the hexadecimal digits of the double of equal value.
std::string float_literal(double value, DType dtype) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llX",
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(round_to(value, dtype))));
  return text;
}

}  // namespace

std::string ir_type(DType dtype, int lanes) { return vector_type(element_type(dtype), lanes); }

std::string ir_memory_type(DType dtype, int lanes) { return ir_type(dtype == DType::Bool ? DType::U8 : dtype, lanes); }

IrValue ir_int(int64_t value, DType dtype, int lanes) {
  value = wrap(value, dtype);
  return {.text = repeated(int_literal(value, dtype), dtype, lanes),
          .dtype = dtype,
          .lanes = lanes,
          .is_constant = true,
          .integer = value,
          .non_negative = value >= 0};
}

IrValue ir_float(double value, DType dtype, int lanes) {
  std::string literal = dtype == DType::F32 || dtype == DType::F64 ? float_literal(value, dtype)
                                                                   : std::to_string(to_bits({.f = value}, dtype));
  return {.text = repeated(literal, dtype, lanes), .dtype = dtype, .lanes = lanes, .is_constant = true};
}

void LlvmWriter::set_position(int position) {
  position_ = position;
  count_ = 0;
}

std::string LlvmWriter::emit(const std::string& expression) {
  std::string name = "%v" + std::to_string(position_) + "." + std::to_string(count_++);
  line(name + " = " + expression);
  return name;
}

IrValue LlvmWriter::emit(DType dtype, int lanes, const std::string& expression) {
  return {.text = emit(expression), .dtype = dtype, .lanes = lanes};
}

void LlvmWriter::line(const std::string& text) { body_ += "  " + text + "\n"; }
void LlvmWriter::label(const std::string& name) { body_ += name + ":\n"; }
void LlvmWriter::text(const std::string& lines) { body_ += lines; }
void LlvmWriter::entry_line(const std::string& text) { entry_ += "  " + text + "\n"; }
void LlvmWriter::declare(const std::string& declaration) { declarations_.insert(declaration); }

std::string LlvmWriter::constant_array(const std::string& initializer) {
  size_t index = 0;
  while (index < constants_.size() && constants_[index] != initializer) ++index;
  if (index == constants_.size()) constants_.push_back(initializer);
  return "@table." + std::to_string(index);
}

IrValue LlvmWriter::widen(const IrValue& value, int lanes) {
  if (value.lanes == lanes) return value;
  ENSURE(value.lanes == 1,
         "a vector of " + std::to_string(value.lanes) + " lanes where " + std::to_string(lanes) + " are wanted");
  IrValue wide = value;
  wide.lanes = lanes;
  if (value.is_constant) {
    wide.text = repeated(value.text, value.dtype, lanes);
    return wide;
  }
  std::string type = ir_type(value.dtype, lanes);
  std::string first =
      emit("insertelement " + type + " poison, " + ir_type(value.dtype, 1) + " " + value.text + ", i64 0");
  wide.text = emit("shufflevector " + type + " " + first + ", " + type + " poison, <" + std::to_string(lanes) +
                   " x i32> zeroinitializer");
  return wide;
}

std::string call_of_instruction(const std::string& type, const std::string& instruction, const std::string& constraints,
                                const std::string& operands) {
  return "call " + type + " asm \"" + instruction + ";\", \"" + constraints + "\"(" + operands +
         ") nounwind willreturn memory(none)";
}

std::string shuffle_mask(const std::vector<int>& lanes) {
  std::string text = "<" + std::to_string(lanes.size()) + " x i32> <";
  for (size_t i = 0; i < lanes.size(); ++i) text += (i ? ", i32 " : "i32 ") + std::to_string(lanes[i]);
  return text + ">";
}

}  // namespace smelt
