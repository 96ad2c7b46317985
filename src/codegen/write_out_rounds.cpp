#include "codegen/write_out_rounds.h"

#include <optional>
#include <utility>
#include <vector>

#include "codegen/instruction_views.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

constexpr int64_t kFewRounds = 4;  // more would be much code for what a loop then hides

// How often a loop runs: `count` times, if there is a condition, an integer of 0 or 1, only under that.
struct FewRounds {
  int64_t count;
  std::optional<int> condition;
};

class RoundWriter {
 public:
  explicit RoundWriter(Program& program) : program_(program), old_(std::move(program.code)) {}

  void run() {
    place_.assign(old_.size(), -1);
    for (size_t i = 0; i < old_.size(); ++i) {
      const std::optional<FewRounds> rounds = few_rounds(i);
      if (rounds)
        i = write_out(i, *rounds);
      else
        place_[i] = add(moved(old_[i]));
    }
    program_.code = std::move(code_);
  }

 private:
  const Instruction& old(int i) const { return old_[static_cast<size_t>(i)]; }
  const Instruction& made(int i) const { return code_[static_cast<size_t>(i)]; }

  static bool is_whole(DType dtype) { return is_int(dtype) || dtype == DType::Bool; }
  static std::optional<int64_t> integer(const Instruction& x) {
    const bool is_one = x.kind == Inst::Value && x.op == Op::Const && is_whole(x.dtype);
    return is_one ? std::optional(x.arg.i) : std::nullopt;
  }

  // Of the loop that begins at `begin`, if it is staged.
  std::optional<FewRounds> few_rounds(size_t begin) const {
    const Instruction& x = old_[begin];
    if (x.kind != Inst::Loop || !is_staged(begin)) return std::nullopt;
    const LoopView loop(x);
    if (loop.threads > 0 || integer(old(loop.begin)) != 0) return std::nullopt;
    const Instruction& end = old(loop.end);
    std::optional<FewRounds> rounds;
    if (const auto count = integer(end)) rounds = {*count, std::nullopt};
    if (end.kind == Inst::Value && end.op == Op::Mul) {
      const auto count = integer(old(end.src[1]));
      if (count && is_flag(old(end.src[0]))) rounds = {*count, end.src[0]};
    }
    return rounds && rounds->count > 1 && rounds->count <= kFewRounds ? rounds : std::nullopt;
  }

  bool is_flag(const Instruction& x) const {
    return x.kind == Inst::Value && x.op == Op::Cast && old(x.src[0]).dtype == DType::Bool;
  }

  // Whether its rounds are sent by threads alone: a copy in bulk takes a few instructions anyway.
  bool is_staged(size_t begin) const {
    bool waits = false, has_signals = false;
    for (size_t i = begin, end = end_of(begin); i < end; ++i) {
      waits |= old_[i].kind == Inst::CopyWait;
      has_signals |= old_[i].kind == Inst::SignalWait;
    }
    return waits && !has_signals;
  }

  size_t end_of(size_t begin) const {
    size_t end = begin + 1;
    while (old_[end].kind != Inst::EndLoop || only_operand(old_[end]) != static_cast<int>(begin)) ++end;
    return end;
  }

  int add(Instruction x) {
    code_.push_back(std::move(x));
    return static_cast<int>(code_.size()) - 1;
  }
  int add_integer(int64_t value, DType dtype) {
    return add({.kind = Inst::Value, .op = Op::Const, .dtype = dtype, .arg = {.i = value}});
  }

  Instruction moved(Instruction x) const {
    for (int& s : x.src) s = place_[static_cast<size_t>(s)];
    return x;
  }

  // Returns where the loop ends.
  size_t write_out(size_t begin, const FewRounds& rounds) {
    const Instruction& x = old_[begin];
    const size_t end = end_of(begin);
    std::optional<int> condition;
    if (rounds.condition) {
      Instruction loop = moved(x);
      loop.src[1] = place_[static_cast<size_t>(*rounds.condition)];
      loop.arg.list = {0, 1};
      condition = add(std::move(loop));
    }
    int& bound = place_[static_cast<size_t>(LoopView(x).end)];
    const int outside = std::exchange(bound, add_integer(rounds.count, x.dtype));
    for (int64_t round = 0; round < rounds.count; ++round) {
      place_[begin] = add_integer(round, x.dtype);
      for (size_t i = begin + 1; i < end; ++i) place_[i] = add_folded(moved(old_[i]));
    }
    bound = outside;
    if (condition) add({.kind = Inst::EndLoop, .src = {*condition}});
    return end;
  }

  // What is known of a round that has a number is a constant. A copy that nobody sends is left out.
  int add_folded(Instruction x) {
    if (const auto value = folded(x)) return add_integer(*value, x.dtype);
    if (x.kind == Inst::Copy && x.src.size() > 4 && integer(made(x.src[4])) == 0) return x.src[4];
    return add(std::move(x));
  }

  std::optional<int64_t> folded(const Instruction& x) const {
    if (x.kind != Inst::Value || x.src.empty() || x.src.size() > 2 || x.lanes != 1 || !is_whole(x.dtype))
      return std::nullopt;
    const auto first = integer(made(x.src.front())), last = integer(made(x.src.back()));
    if (x.op == Op::And && x.dtype == DType::Bool && (first == 0 || last == 0)) return 0;
    if (!first || !last) return std::nullopt;
    if (x.src.size() == 1) return x.op == Op::Cast ? std::optional(wrap(*first, x.dtype)) : std::nullopt;
    const auto value = apply_binary(x.op, made(x.src[0]).dtype, {.i = *first}, {.i = *last});
    return value ? std::optional(value->i) : std::nullopt;
  }

  Program& program_;
  const std::vector<Instruction> old_;
  std::vector<Instruction> code_;
  std::vector<int> place_;  // by old position; inside of rounds, of the one under way
};

}  // namespace

void write_out_rounds(Program& program) { RoundWriter(program).run(); }

}  // namespace smelt
