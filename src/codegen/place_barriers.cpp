#include "codegen/place_barriers.h"

#include <set>

#include "codegen/instruction_views.h"

namespace smelt {
namespace {

using Regions = std::set<int64_t>;  // of scratch memory, by offset

bool meet(const Regions& a, const Regions& b) {
  for (int64_t region : a)
    if (b.contains(region)) return true;
  return false;
}

// On-chip memory that threads have touched since they last waited.
struct Touched {
  Regions read, read_own;           // own: elements that the same thread of the nest writes, so that no other one does
  Regions written, written_before;  // by this nest; by nests before it
  bool operator==(const Touched&) const = default;
  bool is_none() const { return read.empty() && read_own.empty() && written.empty() && written_before.empty(); }

  void begin_nest() {
    read.merge(read_own), written_before.merge(written);
    read_own.clear(), written.clear();
  }
  void add(const Touched& other) {
    read.insert(other.read.begin(), other.read.end());
    read_own.insert(other.read_own.begin(), other.read_own.end());
    written.insert(other.written.begin(), other.written.end());
    written_before.insert(other.written_before.begin(), other.written_before.end());
  }
  // Whether what comes next must wait.
  bool collides(const Touched& next) const {
    return meet(next.read, written) || meet(next.read, written_before) || meet(next.read_own, written_before) ||
           meet(next.written, read) || meet(next.written, written_before);
  }
};

class Placement {
 public:
  explicit Placement(const Program& program)
      : program_(program), waits_(program.code.size()), shows_unit_(program.code.size()) {
    std::vector<size_t> open;
    ends_.resize(program.code.size());
    for (size_t i = 0; i < program.code.size(); ++i) {
      const Instruction& x = program.code[i];
      if (is_sent(x)) sent_to_.insert(place_of(x));
      if (is_product_of_halves(x)) columns_.insert(place_of_columns(x));
      if (x.kind == Inst::Loop) open.push_back(i);
      if (x.kind != Inst::EndLoop) continue;
      ends_[open.back()] = i;
      open.pop_back();
    }
    for (int64_t place : sent_to_) columns_.erase(place);
  }

  // Before which instructions threads wait.
  std::vector<bool> run() {
    Touched state;
    walk(0, program_.code.size(), state);
    return waits_;
  }

  // Of a wait before this instruction: whether threads have stored columns for a unit since the last one.
  bool shows_unit(size_t at) const { return shows_unit_[at]; }

  // How many wait before this instruction: those that run the innermost loop of some around it; 0: all of the block.
  int64_t waiting(size_t at) const {
    int64_t threads = 0;
    for (size_t loop = 0; loop < at; ++loop)
      if (is_loop_of_some(program_.code[loop]) && at <= ends_[loop]) threads = LoopView(program_.code[loop]).threads;
    return threads;
  }

 private:
  static bool is_sent(const Instruction& x) { return x.kind == Inst::Copy || x.kind == Inst::BulkCopy; }
  int64_t place_of(int pointer) const { return program_.code[static_cast<size_t>(pointer)].arg.i; }
  int64_t place_of(const Instruction& copy) const { return place_of(copy.src[2]); }
  static bool is_product_of_halves(const Instruction& x) {
    return x.kind == Inst::MatrixDot && matrix_shape(x).of_warpgroup();
  }
  int64_t place_of_columns(const Instruction& product) const {
    return place_of(product.src[static_cast<size_t>(matrix_shape(product).a_words())]);
  }

  // What copies send is there, for others to see, when it was waited for. Until then it is in nobody's way but that of
  // who still reads what lay there before.
  Touched touched_by(size_t at) const {
    Touched t;
    const Instruction& x = program_.code[at];
    if (x.kind == Inst::CopyWait) t.written = sent_to_;
    if (x.kind == Inst::SignalInit) t.written.insert(place_of(x.src[0]));
    if (x.kind == Inst::SignalWait) t.read.insert(place_of(x.src[0]));
    if (x.kind == Inst::BulkCopy) t.read.insert(place_of(BulkCopyView(x).signal));
    if (is_product_of_halves(x)) t.read.insert(place_of_columns(x));
    if (x.kind != Inst::Load && x.kind != Inst::Store) return t;
    const Instruction& pointer = program_.code[static_cast<size_t>(AccessView(x).pointer)];
    if (pointer.kind != Inst::Scratch) return t;
    (x.kind == Inst::Store ? t.written : is_written_back(at) ? t.read_own : t.read).insert(pointer.arg.i);
    return t;
  }

  // Whether each thread that runs the load also stores to what it loads, later in this nest and round of its loop.
  bool is_written_back(size_t load) const {
    const AccessView from(program_.code[load]);
    for (size_t i = load + 1; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      if (x.kind == Inst::Barrier || x.kind == Inst::EndLoop) return false;
      if (x.kind == Inst::Loop) i = ends_[i];
      if (x.kind != Inst::Store) continue;
      const StoreInstView to(x);
      if (to.pointer == from.pointer && to.offset == from.offset && to.predicate < 0) return true;
    }
    return false;
  }

  // All that a loop touches before it waits by itself.
  Touched touched_first(size_t begin, size_t end) const {
    Touched all;
    for (size_t i = begin; i < end && !waits_[i]; ++i) all.add(needed_by(i));
    return all;
  }

  // What must be there, or be done with, before the instruction: of copies the places that they go to. In rounds of a
  // ring they stand behind a wait, so that one barrier is for what has arrived and for what is overwritten.
  Touched needed_by(size_t at) const {
    const Instruction& x = program_.code[at];
    if (x.kind == Inst::CopyWait) return {};
    Touched t = touched_by(at);
    if (!is_sent(x)) return t;
    t.written.insert(place_of(x));
    t.read.insert(place_of(x));
    return t;
  }

  void wait_if(size_t at, const Touched& next, Touched& state) {
    if (waits_[at] || state.collides(next)) wait(at, state);
  }

  void wait(size_t at, Touched& state) {
    waits_[at] = true;
    if (meet(columns_, state.written) || meet(columns_, state.written_before)) shows_unit_[at] = true;
    state = {};
  }

  void walk(size_t begin, size_t end, Touched& state) {
    for (size_t i = begin; i < end; ++i) {
      const Instruction& x = program_.code[i];
      if (x.kind == Inst::Barrier) state.begin_nest();
      if (x.kind == Inst::Loop) {
        i = walk_loop(i, state);
        continue;
      }
      wait_if(i, needed_by(i), state);
      state.add(touched_by(i));
    }
  }

  bool touches_any(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i)
      if (!touched_by(i).is_none()) return true;
    return false;
  }

  bool is_in_loop(size_t at) const {
    for (size_t loop = 0; loop < at; ++loop)
      if (program_.code[loop].kind == Inst::Loop && at < ends_[loop]) return true;
    return false;
  }

  // Threads that do not run the loop are ahead of the others all the time: all wait in front of it and behind it.
  size_t walk_loop_of_some(size_t loop, Touched& state) {
    const size_t end = ends_[loop];
    const bool is_last = !is_in_loop(loop) && !touches_any(end, program_.code.size());
    if (!state.is_none()) wait(loop, state);
    if (is_condition(program_.code[loop]))
      walk(loop + 1, end, state);
    else
      repeat(loop + 1, end, state);
    if (!is_last) wait(end + 1, state);
    state = {};
    return end;
  }

  // The body is repeated until it needs no more barriers; it may also run not at all. Returns the loop's end.
  size_t walk_loop(size_t loop, Touched& state) {
    const size_t end = ends_[loop];
    if (is_loop_of_some(program_.code[loop]) && touches_any(loop, end)) return walk_loop_of_some(loop, state);
    if (is_condition(program_.code[loop])) {
      const Touched without = state;
      walk(loop + 1, end, state);
      state.add(without);
      return end;
    }
    wait_if(loop, touched_first(loop + 1, end), state);
    const Touched without = state;
    repeat(loop + 1, end, state);
    state.add(without);
    return end;
  }

  void repeat(size_t begin, size_t end, Touched& state) {
    Touched before;
    do {
      before = state;
      walk(begin, end, state);
    } while (!(state == before));
  }

  const Program& program_;
  Regions sent_to_;           // by copies of the program
  Regions columns_;           // of products of halves, which threads store
  std::vector<size_t> ends_;  // by position of a loop
  std::vector<bool> waits_, shows_unit_;
};

}  // namespace

void place_barriers(Program& program) {
  Placement placement(program);
  const std::vector<bool> waits = placement.run();
  std::vector<int64_t> waiting;
  for (size_t i = 0; i < program.code.size(); ++i) waiting.push_back(waits[i] ? placement.waiting(i) : 0);
  std::vector<Instruction> code;
  std::vector<int> moved(program.code.size(), -1);
  for (size_t i = 0; i < program.code.size(); ++i) {
    Instruction& x = program.code[i];
    if (waits[i]) {
      code.push_back({.kind = Inst::Barrier, .arg = {.i = waiting[i]}});
      if (placement.shows_unit(i)) code.back().arg.list = {1};
    }
    if (x.kind == Inst::Barrier) continue;
    for (int& s : x.src) s = moved[static_cast<size_t>(s)];
    moved[i] = static_cast<int>(code.size());
    code.push_back(std::move(x));
  }
  program.code = std::move(code);
}

}  // namespace smelt
