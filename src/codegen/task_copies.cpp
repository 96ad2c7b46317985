#include "codegen/task_copies.h"

#include <algorithm>
#include <set>

#include "codegen/block_threads.h"
#include "codegen/footprint.h"
#include "codegen/nest_emitter.h"
#include "codegen/program.h"
#include "graph/args.h"
#include "graph/index_sum.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kFewestBytesOfWeights = 1 << 10, kFewestBytes = 64;
constexpr int64_t kMostBytes = 16 << 10;      // of what threads send
constexpr int64_t kMostTasksOfProcessor = 4;  // further tasks wait for their copies

// Where a load reads: what the task decides, and what lies within its bytes.
struct TaskOffset {
  Ref begin, within;
};

std::optional<TaskOffset> split_at_task(Ref offset, const Refs& tasks) {
  const auto sum = index_sum(offset);
  if (!sum) return std::nullopt;
  IndexSum begin, within{.constant = sum->constant};
  for (const IndexTerm& term : sum->terms) {
    const Refs ranges = ranges_of(term.product);
    const auto in_tasks = std::count_if(ranges.begin(), ranges.end(), [&](Ref r) { return contains(tasks, r); });
    const bool is_of_task = in_tasks == std::ssize(ranges);
    if (ranges.empty() || reads_memory(term.product) || (in_tasks > 0 && !is_of_task)) return std::nullopt;
    if (is_of_task ? term.times % kCopyBytes != 0 : !has_const_sizes(term.product)) return std::nullopt;
    (is_of_task ? begin : within).terms.push_back(term);
  }
  return TaskOffset{to_node(begin), to_node(within)};
}

// All that a nest reads of one buffer.
class BufferReads {
 public:
  explicit BufferReads(Ref buffer) : buffer_(buffer) {}
  Ref buffer() const { return buffer_; }

  void add(Ref load, const Refs& tasks) {
    const auto offset = split_at_task(LoadView(load).offset, tasks);
    is_known_ &= offset && (!begin_ || begin_ == offset->begin);
    if (!is_known_) return;
    begin_ = offset->begin;
    loads_.push_back({load, offset->within});
    patterns_.push_back(pattern_of(offset->within, size_of(load->dtype)));
  }

  // Whether the task reads most of some bytes in a row, which can be copied in pieces.
  bool is_dense() const {
    return is_known_ && first() % kCopyBytes == 0 && bytes() % kCopyBytes == 0 &&
           2 * distinct_bytes(patterns_) >= static_cast<double>(bytes());
  }
  bool pays_as_weights() const { return is_dense() && has_own() && bytes() >= kFewestBytesOfWeights; }
  // `lanes`: of the threads that read different weights.
  bool pays_beside_weights(const Refs& lanes) const {
    const auto shares = [&](Ref lane) {
      return std::none_of(loads_.begin(), loads_.end(),
                          [&](const LoadWithin& l) { return depends_on(l.within, lane); });
    };
    return is_dense() && has_own() && bytes() >= kFewestBytes && bytes() <= kMostBytes &&
           std::any_of(lanes.begin(), lanes.end(), shares);
  }

  Refs lanes() const {
    Refs lanes;
    for (const LoadWithin& l : loads_)
      for (Ref r : ranges_of(l.within))
        if (kind_of(r) == RangeKind::Lane && !contains(lanes, r)) lanes.push_back(r);
    return lanes;
  }

  int64_t bytes() const { return extent_of(patterns_).whole_bytes(); }

  TaskCopy copy_to(int64_t local) const {
    return {.buffer = buffer_,
            .begin = simplify(begin_ + constant(first())),
            .bytes = bytes(),
            .memory = make_local(local, DType::Void, bytes()),
            .is_of_weights = is_given(buffer_)};
  }
  void replace(Ref memory, Replacements& loads) const {
    for (const LoadWithin& l : loads_)
      loads[l.load] = make_load(l.load->dtype, memory, simplify(l.within - constant(first())));
  }

 private:
  struct LoadWithin {
    Ref load, within;
  };

  bool has_own() const { return !ranges_of(begin_).empty(); }  // a task, where all do not read the same
  int64_t first() const { return extent_of(patterns_).first; }

  Ref buffer_, begin_;
  std::vector<LoadWithin> loads_;
  std::vector<Pattern> patterns_;
  bool is_known_ = true;
};

std::vector<BufferReads> reads_of(const Refs& stores, const Refs& tasks) {
  std::vector<BufferReads> reads;
  std::set<const Node*> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op != Op::Load || LoadView(n).buffer->op != Op::Param || !seen.insert(n.get()).second) continue;
      const Ref buffer = LoadView(n).buffer;
      auto at = std::find_if(reads.begin(), reads.end(), [&](const BufferReads& r) { return r.buffer() == buffer; });
      if (at == reads.end()) at = reads.insert(at, BufferReads(buffer));
      at->add(n, tasks);
    }
  return reads;
}

bool has_few_tasks(const Refs& tasks, const Machine& machine) {
  int64_t count = 1;
  for (Ref r : tasks) count *= has_const_sizes(r) ? RangeView(r).count() : INT32_MAX;
  return count <= kMostTasksOfProcessor * machine.processors;
}

// Threads that hold fragments of matrices share nothing.
bool has_products_of_unit(const Refs& stores) {
  return std::any_of(stores.begin(), stores.end(), [](Ref s) {
    const Refs nodes = toposort(s);
    return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::MatrixDot; });
  });
}

}  // namespace

int64_t TaskCopies::of_weights() const {
  return std::count_if(copies.begin(), copies.end(), [](const TaskCopy& c) { return c.is_of_weights; });
}

int64_t TaskCopies::bytes() const {
  int64_t bytes = 0;
  for (const TaskCopy& c : copies) bytes += c.bytes;
  return bytes;
}

NestWithCopies copy_for_tasks(const Refs& stores, const Machine& machine, int64_t local, int64_t room) {
  const Refs tasks = task_ranges(stores);
  if (room <= 0 || tasks.empty() || chunk_range(stores) || threads_of(stores) == 1 || !has_few_tasks(tasks, machine))
    return {stores, {}};
  const std::vector<BufferReads> reads = reads_of(stores, tasks);
  TaskCopies copies{.signal = make_local(local, DType::Void, kSignalBytes)};
  Replacements loads;
  Refs lanes;
  const auto copy = [&](const BufferReads& of_buffer) {
    if (std::ssize(copies.copies) + 1 == kMostTaskCopyLocals) return;
    copies.copies.push_back(of_buffer.copy_to(local + 1 + std::ssize(copies.copies)));
    of_buffer.replace(copies.copies.back().memory, loads);
  };
  for (const BufferReads& of_buffer : reads) {
    if (!is_given(of_buffer.buffer()) || !of_buffer.pays_as_weights() || of_buffer.bytes() > room) continue;
    copy(of_buffer);
    room -= of_buffer.bytes();
    for (Ref r : of_buffer.lanes()) lanes.push_back(r);
  }
  if (copies.copies.empty()) return {stores, {}};
  for (const BufferReads& of_buffer : reads)
    if (!is_given(of_buffer.buffer()) && !has_products_of_unit(stores) && of_buffer.pays_beside_weights(lanes))
      copy(of_buffer);
  Refs replaced;
  for (Ref s : stores) replaced.push_back(substitute(s, loads));
  return {replaced, copies};
}

}  // namespace smelt
