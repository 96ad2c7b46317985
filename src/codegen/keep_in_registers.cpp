#include "codegen/keep_in_registers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "codegen/instruction_views.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

using OfThreads = std::vector<int64_t>;  // an integer of each thread

// The program without some of its instructions, whose users take others.
void remove(Program& program, const std::vector<bool>& goes, const std::vector<int>& taken) {
  std::vector<int> position(program.code.size());
  std::vector<Instruction> code;
  for (size_t i = 0; i < program.code.size(); ++i) {
    position[i] = static_cast<int>(code.size());
    if (goes[i]) continue;
    code.push_back(std::move(program.code[i]));
    for (int& s : code.back().src) s = position[static_cast<size_t>(taken[static_cast<size_t>(s)])];
  }
  program.code = std::move(code);
}

std::vector<int> own_positions(const Program& program) {
  std::vector<int> own(program.code.size());
  for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<int>(i);
  return own;
}

// Loops that run under the same condition, one behind the other.
class Conditions {
 public:
  explicit Conditions(const Program& program)
      : program_(program), goes_(program.code.size()), taken_(own_positions(program)) {}

  void merge() {
    std::vector<int> open;
    int ended = -1;  // the loop that ended last, where only values have come since
    size_t end = 0;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      if (x.kind == Inst::EndLoop) {
        ended = open.back(), end = i;
        open.pop_back();
      } else if (x.kind == Inst::Loop) {
        const bool joins = ended >= 0 && is_same_condition(ended, static_cast<int>(i));
        if (joins) goes_[end] = goes_[i] = true, taken_[i] = ended;
        open.push_back(taken_[i]);
        ended = -1;
      } else if (!is_plain(x)) {
        ended = -1;
      }
    }
  }
  const std::vector<bool>& goes() const { return goes_; }
  const std::vector<int>& taken() const { return taken_; }

 private:
  const Instruction& code(int i) const { return program_.code[static_cast<size_t>(i)]; }
  static bool is_plain(const Instruction& x) {
    return x.kind == Inst::Value || x.kind == Inst::Part || x.kind == Inst::Symbol || x.kind == Inst::ThreadIndex;
  }

  bool is_same(int a, int b) const {
    const Instruction &x = code(a), &y = code(b);
    if (a == b) return true;
    if (!is_plain(x) || x.kind != y.kind || x.op != y.op || x.dtype != y.dtype || x.lanes != y.lanes ||
        !(x.arg == y.arg) || x.src.size() != y.src.size())
      return false;
    for (size_t i = 0; i < x.src.size(); ++i)
      if (!is_same(x.src[i], y.src[i])) return false;
    return true;
  }
  bool is_same_condition(int a, int b) const {
    const LoopView x(code(a)), y(code(b));
    return is_condition(code(a)) && is_condition(code(b)) && x.threads == y.threads && is_same(x.begin, y.begin) &&
           is_same(x.end, y.end);
  }

  const Program& program_;
  std::vector<bool> goes_;
  std::vector<int> taken_;  // by position: whom its users take instead
};

// Integers that follow from the number of the thread alone.
class ThreadIntegers {
 public:
  explicit ThreadIntegers(const Program& program) : program_(program) {}

  const OfThreads* find(int position) {
    const auto [known, is_new] = known_.try_emplace(position);
    if (is_new) known->second = compute(program_.code[static_cast<size_t>(position)]);
    return known->second ? &*known->second : nullptr;
  }

 private:
  std::optional<OfThreads> compute(const Instruction& x) {
    OfThreads out(static_cast<size_t>(program_.threads));
    if (x.kind == Inst::ThreadIndex) {
      for (size_t t = 0; t < out.size(); ++t) out[t] = static_cast<int64_t>(t);
      return out;
    }
    if (x.kind != Inst::Value || !is_int(x.dtype)) return std::nullopt;
    if (x.op == Op::Const) return OfThreads(out.size(), x.arg.i);
    if (x.op == Op::Cast) {
      const OfThreads* from = find(only_operand(x));
      return from ? std::optional(*from) : std::nullopt;
    }
    if (x.src.size() != 2) return std::nullopt;
    const OfThreads *a = find(x.src[0]), *b = a ? find(x.src[1]) : nullptr;
    if (!b) return std::nullopt;
    for (size_t t = 0; t < out.size(); ++t) {
      const auto value = apply_binary(x.op, x.dtype, {.i = (*a)[t]}, {.i = (*b)[t]});
      if (!value) return std::nullopt;
      out[t] = value->i;
    }
    return out;
  }

  const Program& program_;
  std::map<int, std::optional<OfThreads>> known_;
};

class Forwarding {
 public:
  explicit Forwarding(const Program& program)
      : program_(program), integers_(program), goes_(program.code.size()), taken_(own_positions(program)) {
    std::vector<int> open;
    for (size_t i = 0; i < program.code.size(); ++i) {
      const Instruction& x = program.code[i];
      if (x.kind == Inst::EndLoop) open.pop_back();
      if (x.kind == Inst::Loop) open.push_back(static_cast<int>(i));
      if (const auto region = region_stored(x))
        for (int loop : open) stored_in_[loop].insert(*region);
    }
  }

  void run() {
    frames_.emplace_back();
    std::vector<int> open;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      if (x.kind == Inst::Barrier) ++nest_;
      if (x.kind == Inst::Loop) enter(static_cast<int>(i)), open.push_back(static_cast<int>(i));
      if (x.kind == Inst::EndLoop) leave(open.back()), open.pop_back();
      if (x.kind == Inst::Load) forward(i, x);
      if (const auto region = region_stored(x)) note(*region, x);
    }
    remove_unread();
  }
  const std::vector<bool>& goes() const { return goes_; }
  const std::vector<int>& taken() const { return taken_; }

 private:
  // What was stored to a region by the last nest that did.
  struct Stored {
    int nest = -1;
    std::vector<const Instruction*> stores = {};
  };
  using Frame = std::map<int64_t, Stored>;  // by region

  const Instruction& code(int i) const { return program_.code[static_cast<size_t>(i)]; }
  bool is_scratch(int pointer) const { return code(pointer).kind == Inst::Scratch; }

  // A region of scratch memory that the instruction, or a unit because of it, stores to.
  std::optional<int64_t> region_stored(const Instruction& x) const {
    if (x.kind == Inst::Store && is_scratch(AccessView(x).pointer)) return code(AccessView(x).pointer).arg.i;
    if (x.kind == Inst::Copy) return code(CopyView(x).to).arg.i;
    if (x.kind == Inst::BulkCopy) return code(BulkCopyView(x).to).arg.i;
    return std::nullopt;
  }

  // What a loop stores, its next round finds.
  void enter(int loop) {
    frames_.emplace_back();
    for (int64_t region : stored_in_[loop]) frames_.back()[region] = {};
  }
  void leave(int loop) {
    frames_.pop_back();
    for (int64_t region : stored_in_[loop]) frames_.back()[region] = {.nest = nest_};
  }

  void note(int64_t region, const Instruction& store) {
    Stored& known = frames_.back()[region];
    if (known.nest != nest_) known = {.nest = nest_};
    if (store.kind == Inst::Store && store.lanes == 1) known.stores.push_back(&store);
  }

  void forward(size_t i, const Instruction& load) {
    const AccessView from(load);
    if (!is_scratch(from.pointer) || load.lanes != 1) return;
    const auto frame = std::find_if(frames_.rbegin(), frames_.rend(),
                                    [&](const Frame& f) { return f.contains(code(from.pointer).arg.i); });
    if (frame == frames_.rend()) return;
    const Stored& stored = frame->at(code(from.pointer).arg.i);
    if (stored.nest == nest_) return;  // threads exchange values
    for (const Instruction* store : stored.stores) {
      const StoreInstView to(*store);
      const int value = taken_[static_cast<size_t>(to.value)];
      if (code(value).dtype != load.dtype || code(value).lanes != 1 || !are_equal(to.offset, from.offset)) continue;
      goes_[i] = true;
      taken_[i] = value;
      return;
    }
  }
  bool are_equal(int a, int b) {
    const OfThreads *x = integers_.find(a), *y = x ? integers_.find(b) : nullptr;
    return y && *x == *y;
  }

  void remove_unread() {
    std::set<int64_t> read;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      if (goes_[i] || x.kind == Inst::Store) continue;
      for (int s : x.src)
        if (is_scratch(s)) read.insert(code(s).arg.i);
    }
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      if (x.kind != Inst::Store) continue;
      const int pointer = AccessView(x).pointer;
      goes_[i] = is_scratch(pointer) && !read.contains(code(pointer).arg.i);
    }
  }

  const Program& program_;
  ThreadIntegers integers_;
  std::map<int, std::set<int64_t>> stored_in_;  // by loop
  std::vector<Frame> frames_;                   // of the loops around, outermost first
  int nest_ = 0;
  std::vector<bool> goes_;
  std::vector<int> taken_;
};

}  // namespace

void keep_in_registers(Program& program) {
  Conditions conditions(program);
  conditions.merge();
  remove(program, conditions.goes(), conditions.taken());
  Forwarding forwarding(program);
  forwarding.run();
  remove(program, forwarding.goes(), forwarding.taken());
}

}  // namespace smelt
