#include "codegen/execution.h"

#include <algorithm>
#include <map>

#include "codegen/instruction_views.h"
#include "codegen/known_integers.h"
#include "graph/matrix_shape.h"

namespace smelt {
namespace {

const Instruction& source(const Program& program, const Instruction& i, size_t operand) {
  return program.code[static_cast<size_t>(i.src[operand])];
}

// Where a loop's instructions begin and end, the loop itself and its end left out.
struct Body {
  size_t begin = 0, end = 0;
};

// Cycles from operands to result on present processors, about.
int latency(const Instruction& i) {
  if (i.kind != Inst::Value) return 0;
  if (i.op == Op::Dot4) return 5;
  return is_float(i.dtype) ? 4 : 1;
}

bool takes_time(const Instruction& i) {
  switch (i.kind) {
    case Inst::Value: return i.op != Op::Const;
    case Inst::Load:
    case Inst::Store:
    case Inst::Copy:
    case Inst::BulkCopy:
    case Inst::Prefetch:
    case Inst::LaneReduce:
    case Inst::MatrixDot:
    case Inst::MatrixItem: return true;
    default: return false;
  }
}

// The longest loop-carried chain of an innermost loop, in cycles.
int cycles_from_round_to_round(const Program& program, Body body) {
  std::map<int, int> since;  // by accumulator: the chain up to its value now
  std::vector<int> chain(body.end - body.begin,
                         -1);  // by instruction; -1: does not depend on an accumulator
  int longest = 0;
  for (size_t at = body.begin; at < body.end; ++at) {
    const Instruction& i = program.code[at];
    int& mine = chain[at - body.begin];
    if (i.kind == Inst::AccGet) {
      mine = since[only_operand(i)];
      continue;
    }
    for (int s : i.src)
      if (const auto from = static_cast<size_t>(s); from >= body.begin && from < at)
        mine = std::max(mine, chain[from - body.begin]);
    if (mine >= 0) mine += latency(i);
    if (i.kind == Inst::AccSet) longest = std::max(longest, since[AccSetView(i).acc] = std::max(mine, 0));
  }
  return longest;
}

class Counter {
 public:
  Counter(const Program& program, const SymbolValues& symbols, int workers)
      : program_(program), integers_(program, symbols), workers_(workers) {
    out_.of_argument.resize(static_cast<size_t>(program.buffers));
  }

  Execution run() {
    find_shared();
    is_early_ = awaits(program_);
    size_t innermost = 0;  // where the last loop began, if none has ended since
    for (size_t at = 0; at < program_.code.size(); ++at) {
      const Instruction& i = program_.code[at];
      if (i.kind == Inst::Loop) {
        const auto rounds = integers_.rounds(i);
        out_.is_exact &= rounds.has_value();
        loops_.push_back({times() * rounds.value_or(1), is_shared() || depends_on_part_[at]});
        innermost = at + 1;
      } else if (i.kind == Inst::EndLoop) {
        if (innermost) count_loop({innermost, at});
        innermost = 0;
        loops_.pop_back();
      } else {
        if (i.kind == Inst::Await) is_early_ = false;
        count(i);
      }
    }
    if (cycles_ > 0) out_.serial_share = serial_ / cycles_;
    return out_;
  }

 private:
  struct OpenLoop {
    double times;    // that its body is run, by one worker that does all
    bool is_shared;  // workers do parts of it
  };

  // Bounds that depend on the worker are those of loops whose iterations are shared out.
  void find_shared() {
    depends_on_part_.resize(program_.code.size());
    for (size_t at = 0; at < program_.code.size(); ++at) {
      const Instruction& i = program_.code[at];
      // Each worker begins once.
      depends_on_part_[at] = i.kind == Inst::Part && part_value(i) != PartValue::Begins;
      if (i.kind != Inst::Value && i.kind != Inst::Loop) continue;
      for (int s : i.src)
        if (depends_on_part_[static_cast<size_t>(s)]) depends_on_part_[at] = true;
    }
  }

  double times() const { return loops_.empty() ? 1 : loops_.back().times; }
  bool is_shared() const { return !loops_.empty() && loops_.back().is_shared; }

  void count(const Instruction& i) {
    if (i.kind == Inst::MatrixDot) return count_matrices(i);
    if (i.kind == Inst::Load) return count_load(i, i.lanes * size_of(i.dtype));
    if (i.kind == Inst::Copy && is_early_) return;  // the first rounds send the same, if nobody has
    if (i.kind == Inst::Copy) return count_load(i, kCopyBytes);
    if (i.kind == Inst::BulkCopy) return count_load(i, BulkCopyView(i).bytes);
    const bool computes = i.kind == Inst::LaneReduce || (i.kind == Inst::Value && is_elementwise(i.op));
    if (!computes || i.op == Op::Cast || i.op == Op::Bitcast) return;
    const Instruction& operand = i.src.empty() ? i : source(program_, i, 0);
    if (!is_float(is_comparison(i.op) ? operand.dtype : i.dtype)) return;
    const int lanes = i.kind == Inst::LaneReduce ? operand.lanes : i.lanes;
    const int ops = i.op == Op::Fma ? 2 : 1;
    out_.float_ops += times() * ops * lanes * (is_shared() ? 1 : workers_);
  }

  void count_load(const Instruction& i, int64_t bytes) {
    const bool gathers = source(program_, i, 1).lanes > 1;
    const Instruction& pointer = source(program_, i, 0);
    const auto add = [&](Loads& loads) {
      (i.lanes == 1 ? loads.scalars : gathers ? loads.gathers : loads.vectors) += times();
      loads.bytes += times() * static_cast<double>(bytes);
    };
    add(out_.loads);
    if (pointer.kind == Inst::Buffer) add(out_.of_argument[static_cast<size_t>(pointer.arg.i)]);
  }

  // Rows of a product of matrices are read like vectors.
  void count_matrices(const Instruction& product) {
    const MatrixShape shape = matrix_shape(product);
    if (shape.in_fragments) return;
    const struct {
      size_t operand;
      int64_t vectors, width;
    } sides[] = {{0, shape.m, shape.m}, {2, shape.words() * shape.blocks, shape.n * shape.blocks}};
    for (const auto& side : sides) {
      const Instruction& pointer = source(program_, product, side.operand);
      const double bytes = times() * static_cast<double>(side.width * 4 * shape.words());
      const auto add = [&](Loads& loads) {
        loads.vectors += times() * static_cast<double>(side.vectors);
        loads.bytes += bytes;
      };
      add(out_.loads);
      if (pointer.kind == Inst::Buffer) add(out_.of_argument[static_cast<size_t>(pointer.arg.i)]);
    }
  }

  void count_loop(Body body) {
    const auto begin = program_.code.begin();
    const auto instructions = std::count_if(begin + static_cast<std::ptrdiff_t>(body.begin),
                                            begin + static_cast<std::ptrdiff_t>(body.end), takes_time);
    const int chain = cycles_from_round_to_round(program_, body);
    const double issue = static_cast<double>(instructions) / 2, cycles = times() * std::max<double>(chain, issue);
    cycles_ += cycles;
    if (chain <= issue) return;
    serial_ += cycles;
    if (cycles <= longest_serial_) return;
    longest_serial_ = cycles;
    out_.serial_cycles = chain;
    out_.serial_instructions = static_cast<int>(instructions);
  }

  const Program& program_;
  const KnownIntegers integers_;
  const int workers_;
  std::vector<bool> depends_on_part_;
  bool is_early_ = false;  // in front of the wait for the launches before
  std::vector<OpenLoop> loops_;
  double cycles_ = 0, serial_ = 0, longest_serial_ = 0;  // of innermost loops
  Execution out_;
};

}  // namespace

Execution execution_of(const Program& program, const SymbolValues& symbols, int workers) {
  return Counter(program, symbols, workers).run();
}

}  // namespace smelt
