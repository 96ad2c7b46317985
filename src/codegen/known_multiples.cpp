#include "codegen/known_multiples.h"

#include <algorithm>
#include <bit>

namespace smelt {
namespace {

// By the bits: the least integer has no negation.
int64_t multiple_of_constant(int64_t value) {
  return int64_t{1} << std::countr_zero(static_cast<uint64_t>(value | kMostMultiple));
}

class Multiples {
 public:
  explicit Multiples(const Program& program) : program_(program), known_(program.code.size(), 1) {
    for (size_t i = 0; i < program.code.size(); ++i) {
      const Instruction& x = program.code[i];
      if (x.kind == Inst::Value && is_int(x.dtype)) known_[i] = std::clamp<int64_t>(of_value(x), 1, kMostMultiple);
    }
  }

  std::vector<int64_t> take() { return std::move(known_); }

 private:
  int64_t of(const Instruction& x, size_t k) const { return known_[static_cast<size_t>(x.src[k])]; }

  // The value of a constant operand; 0: it is none.
  int64_t constant(const Instruction& x, size_t k) const {
    const Instruction& operand = program_.code[static_cast<size_t>(x.src[k])];
    return operand.kind == Inst::Value && operand.op == Op::Const ? operand.arg.i : 0;
  }

  int64_t of_value(const Instruction& x) const {
    switch (x.op) {
      case Op::Const: return multiple_of_constant(x.arg.i);
      case Op::Add:
      case Op::Sub:
      case Op::Min:
      case Op::Max:
      case Op::Or:
      case Op::Xor: return std::min(of(x, 0), of(x, 1));
      case Op::And: return std::max(of(x, 0), of(x, 1));
      case Op::Mul: return of(x, 0) * of(x, 1);
      case Op::Where: return std::min(of(x, 1), of(x, 2));
      case Op::Neg: return of(x, 0);
      case Op::Cast: return is_int(program_.code[static_cast<size_t>(x.src[0])].dtype) ? of(x, 0) : 1;
      case Op::Shl: return constant(x, 1) > 0 && constant(x, 1) < 6 ? of(x, 0) << constant(x, 1) : of(x, 0);
      case Op::Mod: return std::min(of(x, 0), of(x, 1));
      case Op::Div: {
        const int64_t by = constant(x, 1);
        return by > 0 && (by & (by - 1)) == 0 ? of(x, 0) / by : 1;
      }
      default: return 1;
    }
  }

  const Program& program_;
  std::vector<int64_t> known_;
};

}  // namespace

std::vector<int64_t> known_multiples(const Program& program) { return Multiples(program).take(); }

}  // namespace smelt
