#include "render/simd_reductions.h"

#include "codegen/instruction_views.h"

namespace smelt {
namespace {

class Search {
 public:
  explicit Search(const Program& program) : program_(program), users_(program.code.size()) {
    found_.results.resize(program.code.size());
    found_.is_step.resize(program.code.size());
    for (size_t i = 0; i < program.code.size(); ++i)
      for (int s : program.code[i].src) users_[static_cast<size_t>(s)].push_back(static_cast<int>(i));
  }

  SimdReductions run() {
    for (size_t i = 0; i < program_.code.size(); ++i)
      if (is_shuffle(static_cast<int>(i), kWarp / 2)) follow(static_cast<int>(i));
    return std::move(found_);
  }

 private:
  const Instruction& code(int i) const { return program_.code[static_cast<size_t>(i)]; }
  const std::vector<int>& users(int i) const { return users_[static_cast<size_t>(i)]; }
  bool is_shuffle(int i, int64_t bits) const { return code(i).kind == Inst::Shuffle && code(i).arg.i == bits; }

  // What a thread makes of its value and of that which a shuffle brings; -1: something else.
  int combined(int shuffle, Op op) const {
    if (users(shuffle).size() != 1) return -1;
    const int user = users(shuffle)[0], value = only_operand(code(shuffle));
    const Instruction& x = code(user);
    const bool combines = x.kind == Inst::Value && x.op == op && x.src == std::vector<int>{value, shuffle};
    return combines ? user : -1;
  }

  // The shuffle that a step hands its value to, if nothing but the next step needs the value.
  int next_shuffle(int value, int64_t bits) const {
    if (users(value).size() != 2) return -1;
    for (int user : users(value))
      if (is_shuffle(user, bits)) return user;
    return -1;
  }

  void follow(int shuffle) {
    if (users(shuffle).empty()) return;
    const Op op = code(users(shuffle)[0]).op == Op::Max ? Op::Max : Op::Add;
    const int first = only_operand(code(shuffle));
    std::vector<int> steps;
    for (int64_t bits = kWarp / 2; shuffle >= 0; bits /= 2) {
      const int value = combined(shuffle, op);
      if (value < 0) return;
      steps.push_back(shuffle);
      if (bits == 1) return accept(value, first, op, steps);
      steps.push_back(value);
      shuffle = next_shuffle(value, bits / 2);
    }
  }

  void accept(int value, int first, Op op, const std::vector<int>& steps) {
    found_.results[static_cast<size_t>(value)] = {first, op == Op::Max ? Op::ReduceMax : Op::ReduceSum};
    for (int step : steps) found_.is_step[static_cast<size_t>(step)] = true;
  }

  const Program& program_;
  std::vector<std::vector<int>> users_;
  SimdReductions found_;
};

}  // namespace

std::vector<int> SimdReductions::steps_of(const Program& program, int last) const {
  const int first = results[static_cast<size_t>(last)].value;
  std::vector<int> steps;
  for (int value = last; value != first;) {
    const int shuffle = program.code[static_cast<size_t>(value)].src[1];
    if (value != last) steps.push_back(value);
    steps.push_back(shuffle);
    value = only_operand(program.code[static_cast<size_t>(shuffle)]);
  }
  return steps;
}

SimdReductions simd_reductions(const Program& program) { return Search(program).run(); }

}  // namespace smelt
