// The words of the Metal Shading Language: types, literals, expressions that know where they need parentheses, and the
// small functions that a kernel's text brings along.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace smelt {

// How tightly the outermost operator of an expression binds, as in C.
enum class MslBinding : uint8_t { Atom, Unary, Product, Sum, Shift, Order, Equality, Bits, Logic, Choice };

struct MslExpr {
  std::string text;
  MslBinding binding = MslBinding::Atom;

  // As an operand of an operator that binds so: in parentheses where they are needed, or where a reader wants them.
  std::string in(MslBinding outer) const;
};

MslExpr msl_binary(const MslExpr& x, const std::string& name, const MslExpr& y, MslBinding binding);
MslExpr msl_call(const std::string& function, std::span<const MslExpr> arguments);
MslExpr msl_cast(DType dtype, const MslExpr& x);

// Of a value in a register: BF16 is its bits, which no conversion changes by accident.
std::string msl_type(DType dtype);
// Of an element in memory: as above, but Bool is a byte.
std::string msl_memory_type(DType dtype);

std::string msl_int(int64_t value, DType dtype);
std::string msl_float(double value, DType dtype);

// What stands in front of a kernel: functions of ours that it calls, each once, and its tables.
class MslPreamble {
 public:
  // The name of a function of msl_text.cpp, which is now part of the text.
  std::string function(const std::string& name);
  // A function of this name and text, behind those that were added before it.
  void add(const std::string& name, const std::string& text);
  // The name of a table of elements of a type.
  std::string table(std::span<const int64_t> entries, DType dtype);

  std::string text() const;

 private:
  std::set<std::string> functions_;
  std::vector<std::string> tables_;                         // what follows their names
  std::vector<std::pair<std::string, std::string>> added_;  // functions by name
};

}  // namespace smelt
