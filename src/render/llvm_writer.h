// LlvmWriter: the lines of one LLVM function. It knows names, types and lanes; what an op means is
// in llvm_ops.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace smelt {

// An operand as it is written: "%v3.1", "7", "0x3FF0000000000000". A constant with lanes
// is "splat (float ...)".
struct IrValue {
  std::string text;
  DType dtype = DType::Void;
  int lanes = 1;
  bool is_constant = false;
  std::optional<int64_t> integer = {};  // the value of a constant integer or bool
  bool non_negative = false;            // known of an integer
};

// The type of a value in a register: Bool is i1; F16 and BF16 are their bits (i16), all arithmetic
// on them is in F32.
std::string ir_type(DType dtype, int lanes);
// The type of an element in memory: as above, but Bool is i8.
std::string ir_memory_type(DType dtype, int lanes);

IrValue ir_int(int64_t value, DType dtype, int lanes = 1);
IrValue ir_float(double value, DType dtype, int lanes = 1);  // F32 and F64

class LlvmWriter {
 public:
  // Values that follow are named "%v<position>.<count>".
  void set_position(int position);

  // One line that makes a value.
  std::string emit(const std::string& expression);
  IrValue emit(DType dtype, int lanes, const std::string& expression);
  void line(const std::string& text);  // any other line of the body
  void label(const std::string& name);
  void text(const std::string& lines);  // as they are

  // Places outside of the body.
  void entry_line(const std::string& text);      // at the start of the function
  void declare(const std::string& declaration);  // each text once
  // The name of a private constant array of this initialiser, "[2 x i8] [i8 1, i8 2]".
  std::string constant_array(const std::string& initializer);

  // The scalar repeated; a vector of these lanes is returned as it is.
  IrValue widen(const IrValue& value, int lanes);

  const std::string& body() const { return body_; }
  const std::string& entry() const { return entry_; }
  const std::set<std::string>& declarations() const { return declarations_; }
  const std::vector<std::string>& constants() const { return constants_; }

 private:
  int position_ = 0, count_ = 0;
  std::string body_, entry_;
  std::set<std::string> declarations_;
  std::vector<std::string> constants_;
};

// A call of one machine instruction that only computes. Said to touch no memory and to return: LLVM makes one load of
// neighbours only if all between them does.
std::string call_of_instruction(const std::string& type, const std::string& instruction, const std::string& constraints,
                                const std::string& operands);

// "<0, 1, ...>" as the mask of a shufflevector.
std::string shuffle_mask(const std::vector<int>& lanes);

}  // namespace smelt
