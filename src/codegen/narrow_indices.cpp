#include "codegen/narrow_indices.h"

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/known_bounds.h"

namespace smelt {
namespace {

constexpr DType kWide = DType::I64, kNarrow = DType::I32;

// Ops on integers whose result is the same in 32 bits, where all operands and the result fit.
bool has_narrow_form(Op op) {
  switch (op) {
    case Op::Const:
    case Op::Neg:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Mod:
    case Op::Max:
    case Op::Min:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Where:
    case Op::Cast: return true;
    default: return false;
  }
}

class Narrowing {
 public:
  Narrowing(Program& program, const Machine& machine)
      : program_(program), all_(machine.has_threads()), bounds_(known_bounds(program)), narrow_(program.code.size()) {}

  void run() {
    for (size_t i = 0; i < program_.code.size(); ++i) narrow_[i] = can_narrow(i);
    find_needs();
    for (size_t i = 0; i < program_.code.size(); ++i) move(i);
    program_.code = std::move(code_);
  }

 private:
  const Instruction& code(int i) const { return program_.code[static_cast<size_t>(i)]; }
  bool fits_narrow(int i) const { return fits(bounds_[static_cast<size_t>(i)], kNarrow); }

  bool operands_fit(const Instruction& x) const {
    return std::all_of(x.src.begin(), x.src.end(), [&](int s) { return code(s).dtype != kWide || fits_narrow(s); });
  }

  // Whether the instruction itself works in 32 bits. One that pays by itself is enough: what it needs is cut to size.
  bool can_narrow(size_t i) const {
    const Instruction& x = program_.code[i];
    if (!all_ && x.lanes == 1) return false;
    if (x.kind == Inst::Value && is_comparison(x.op)) return code(x.src[0]).dtype == kWide && operands_fit(x);
    if (x.dtype != kWide) return false;
    if (x.kind == Inst::LaneIndex || x.kind == Inst::ThreadIndex) return true;
    if (x.kind == Inst::Loop) return fits(LoopView(x).within, kNarrow);
    if (x.kind != Inst::Value || !has_narrow_form(x.op) || !fits_narrow(static_cast<int>(i))) return false;
    return x.op == Op::Cast ? is_integer(code(x.src[0])) : operands_fit(x);
  }
  static bool is_integer(const Instruction& x) { return is_int(x.dtype) || x.dtype == DType::Bool; }

  // The width in which `user` takes an operand that is i64 now.
  enum class Wants : uint8_t { Either, Narrow, Wide };
  Wants wants(size_t user, size_t operand) const {
    const Instruction& x = program_.code[user];
    if (narrow_[user]) return x.op == Op::Cast && x.kind == Inst::Value ? Wants::Either : Wants::Narrow;
    const bool is_offset = (operand == 1 && (x.kind == Inst::Load || x.kind == Inst::Store)) ||
                           ((operand == 1 || operand == 3) && (x.kind == Inst::Copy || x.kind == Inst::BulkCopy)) ||
                           (operand == 5 && x.kind == Inst::BulkCopy) ||
                           (operand > 0 && (x.kind == Inst::SignalInit || x.kind == Inst::SignalWait)) ||
                           (x.kind == Inst::MatrixDot && matrix_shape(x).of_warpgroup() &&
                            static_cast<int64_t>(operand) == matrix_shape(x).a_words() + 1);
    const bool is_converted = x.kind == Inst::Value && (x.op == Op::Cast || x.op == Op::Lut);
    return is_offset || is_converted || x.kind == Inst::EndLoop ? Wants::Either : Wants::Wide;
  }

  // Which values are needed in another width than the one that they are made in.
  void find_needs() {
    other_.resize(program_.code.size());
    for (size_t i = 0; i < program_.code.size(); ++i)
      for (size_t k = 0; k < program_.code[i].src.size(); ++k) {
        const auto s = static_cast<size_t>(program_.code[i].src[k]);
        if (program_.code[s].dtype != kWide || is_memory(program_.code[s].kind)) continue;
        const Wants w = wants(i, k);
        if (w == (narrow_[s] ? Wants::Wide : Wants::Narrow)) other_[s] = true;
      }
  }
  // An accumulator is set and read in its own dtype.
  static bool is_memory(Inst kind) { return kind == Inst::Acc; }

  // The instruction, its operands in the width that it wants, and its value in the other width where that is needed:
  // right behind it, so that all who see the one see the other.
  void move(size_t i) {
    Instruction x = program_.code[i];
    for (size_t k = 0; k < x.src.size(); ++k) {
      const auto s = static_cast<size_t>(x.src[k]);
      const Wants w = wants(i, k);
      const bool other = other_[s] && w == (narrow_[s] ? Wants::Wide : Wants::Narrow);
      x.src[k] = other ? converted_[s] : moved_[s];
    }
    if (narrow_[i] && x.dtype == kWide) x.dtype = kNarrow;
    moved_.push_back(static_cast<int>(code_.size()));
    converted_.push_back(moved_.back());
    code_.push_back(std::move(x));
    if (!other_[i]) return;
    converted_.back() = static_cast<int>(code_.size());
    code_.push_back(in_other_width(moved_.back(), narrow_[i] ? kWide : kNarrow));
  }

  // A constant stays one: what is added to an address is then known where it is used.
  Instruction in_other_width(int at, DType dtype) const {
    const Instruction& x = code_[static_cast<size_t>(at)];
    if (is_constant(x)) return {.kind = x.kind, .op = x.op, .dtype = dtype, .lanes = x.lanes, .arg = x.arg};
    return {.kind = Inst::Value, .op = Op::Cast, .dtype = dtype, .lanes = x.lanes, .src = {at}};
  }

  Program& program_;
  const bool all_;  // not only vectors
  const std::vector<Bounds> bounds_;
  std::vector<bool> narrow_, other_;    // by instruction: works in 32 bits; is needed in the other width, too
  std::vector<int> moved_, converted_;  // by instruction: where it is now, and its value in the other width
  std::vector<Instruction> code_;
};

}  // namespace

void narrow_indices(Program& program, const Machine& machine) { Narrowing(program, machine).run(); }

}  // namespace smelt
