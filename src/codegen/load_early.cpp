#include "codegen/load_early.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "codegen/instruction_views.h"

namespace smelt {
namespace {

constexpr int64_t kMostBytes = 64;  // of a thread, which keeps them in registers until they are used

// Of a program's instructions some go further ahead, with what they are computed from.
class EarlyLoads {
 public:
  explicit EarlyLoads(const Program& program) : program_(program), is_early_(program.code.size()) {}

  // Loads that can go in front of the wait at `await`.
  void find_before(size_t await) {
    const size_t size = program_.code.size();
    can_be_early_.assign(size, false), of_share_.assign(size, false), reads_thread_.assign(size, false);
    std::fill_n(can_be_early_.begin(), await, true);
    bytes_ = 0;
    for (size_t i = 0; i < size; ++i) {
      note_dependence(i);
      if (i > await) note(i, comes_by(i));
    }
  }

  // Loads that can go to where the loop at `begin` begins, from behind barriers.
  void find_in_loop(size_t begin) {
    can_be_early_.assign(program_.code.size(), false);
    std::fill_n(can_be_early_.begin(), begin + 1, true);
    bytes_ = 0;
    bool has_waited = false;
    int inner = 0;
    for (size_t i = begin + 1; inner >= 0; ++i) {
      const Inst kind = program_.code[i].kind;
      has_waited |= kind == Inst::Barrier;
      inner += kind == Inst::Loop ? 1 : kind == Inst::EndLoop ? -1 : 0;
      if (inner == 0) note(i, has_waited);
    }
  }

  // By position.
  const std::vector<bool>& found() const { return is_early_; }

 private:
  const Instruction& code(int i) const { return program_.code[static_cast<size_t>(i)]; }
  bool all_operands(const Instruction& x, const std::vector<bool>& are) const {
    return std::all_of(x.src.begin(), x.src.end(), [&](int s) { return are[static_cast<size_t>(s)]; });
  }
  bool any_operand(const Instruction& x, const std::vector<bool>& is) const {
    return std::any_of(x.src.begin(), x.src.end(), [&](int s) { return is[static_cast<size_t>(s)]; });
  }
  bool is_given_load(const Instruction& x) const {
    return x.kind == Inst::Load && !code(AccessView(x).pointer).arg.list.empty();
  }

  void note_dependence(size_t i) {
    const Instruction& x = program_.code[i];
    reads_thread_[i] = x.kind == Inst::ThreadIndex || any_operand(x, reads_thread_);
    of_share_[i] = x.kind == Inst::Part || (x.kind == Inst::Value && all_operands(x, of_share_));
    if (x.kind == Inst::EndLoop) open_.pop_back();
    if (x.kind == Inst::Loop) open_.push_back(static_cast<int>(i));
  }

  // Whether every thread of any block may do this: where only a block's share of tasks decides whether it comes here,
  // one of them does. Not every thread where a loop is of some.
  bool comes_by(size_t i) const {
    return std::all_of(open_.begin(), open_.end(), [&](int loop) {
      const LoopView view(code(loop));
      return of_share_[static_cast<size_t>(view.begin)] && of_share_[static_cast<size_t>(view.end)] &&
             (view.threads == 0 || !reads_thread_[i]);
    });
  }

  void note(size_t i, bool takes_loads) {
    const Instruction& x = program_.code[i];
    const bool is_plain = x.kind == Inst::Value || x.kind == Inst::ThreadIndex || x.kind == Inst::Buffer;
    if ((!is_plain && !(is_given_load(x) && takes_loads)) || !all_operands(x, can_be_early_)) return;
    if (!is_plain && !has_room_for(x)) return;
    can_be_early_[i] = true;
    if (!is_plain) take(i);
  }
  bool has_room_for(const Instruction& load) {
    const auto bytes = static_cast<int64_t>(size_of(load.dtype));
    if (bytes_ + bytes > kMostBytes) return false;
    bytes_ += bytes;
    return true;
  }
  void take(size_t i) {
    if (is_early_[i]) return;
    is_early_[i] = true;
    for (int s : program_.code[i].src) take(static_cast<size_t>(s));
  }

  const Program& program_;
  std::vector<bool> is_early_;
  std::vector<bool> can_be_early_;  // follows from what is there already
  std::vector<bool> of_share_;      // follows from the block's number and how many there are
  std::vector<bool> reads_thread_;  // follows from the thread's number, too
  std::vector<int> open_;           // loops
  int64_t bytes_ = 0;
};

// Those found go to where `place` is now.
void move_to(Program& program, size_t place, const std::vector<bool>& found) {
  std::vector<size_t> order(place);
  std::iota(order.begin(), order.end(), 0);
  for (bool early : {true, false})
    for (size_t i = place; i < program.code.size(); ++i)
      if (found[i] == early) order.push_back(i);
  std::vector<int> position(program.code.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  std::vector<Instruction> code;
  code.reserve(order.size());
  for (size_t i : order) {
    code.push_back(std::move(program.code[i]));
    for (int& s : code.back().src) s = position[static_cast<size_t>(s)];
  }
  program.code = std::move(code);
}

}  // namespace

void load_early(Program& program) {
  const auto found = std::find_if(program.code.begin(), program.code.end(),
                                  [](const Instruction& x) { return x.kind == Inst::Await; });
  if (found == program.code.end()) return;
  const auto await = static_cast<size_t>(found - program.code.begin());
  EarlyLoads loads(program);
  loads.find_before(await);
  move_to(program, await, loads.found());
  for (size_t i = 0; i < program.code.size(); ++i) {
    if (program.code[i].kind != Inst::Loop) continue;
    EarlyLoads in_loop(program);
    in_loop.find_in_loop(i);
    move_to(program, i + 1, in_loop.found());
  }
}

}  // namespace smelt
