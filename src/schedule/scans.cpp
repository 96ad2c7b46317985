#include "schedule/scans.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/ensure.h"
#include "graph/rules_algebra.h"
#include "graph/steps.h"

namespace smelt {
namespace {

// The walk from what is left to what leaves the steps.
class Members {
 public:
  Members(Ref root, const ScanTensors& scan) : scan_(scan), order_(toposort(root)) {
    for (Ref n : order_)
      for (Ref s : n->src) users_[s.get()].push_back(n);
    for (Ref n : order_)
      if (is_made_in_step(n)) made_.insert(n.get());
  }

  bool contains(Ref n) const { return made_.contains(n.get()); }
  const Refs& order() const { return order_; }

  // Others read it than the steps, and writes of all of it.
  bool is_read_outside(Ref n) const {
    const auto users = users_.find(n.get());
    if (users == users_.end()) return false;
    return std::any_of(users->second.begin(), users->second.end(),
                       [&](Ref user) { return !contains(user) && !leads_to_write(user); });
  }

  // Through movement to writes alone.
  bool leads_to_write(Ref n) const {
    if (n->op == Op::Write) return true;
    if (!is_move(n->op) || n->op == Op::Gather) return false;
    const auto users = users_.find(n.get());
    return users != users_.end() &&
           std::all_of(users->second.begin(), users->second.end(), [&](Ref user) { return leads_to_write(user); });
  }

 private:
  bool is_made_in_step(Ref n) const {
    if (n == scan_.left) return true;
    if (std::none_of(n->src.begin(), n->src.end(), [&](Ref s) { return contains(s); })) return false;
    return is_step(n) && keeps_front(n);
  }

  bool is_step(Ref n) const {
    if (is_reduce(n->op)) return reduced_axes(n)[0] > scan_.axis;
    if (n->op == Op::Shrink) return begins_in_front(n);
    return is_elementwise(n->op) || n->op == Op::Expand || n->op == Op::Reshape;
  }

  bool begins_in_front(Ref shrink) const {
    const auto begin = begins_of(shrink).begin();
    return std::all_of(begin, begin + scan_.axis + 1, [](int64_t first) { return first == 0; });
  }

  bool keeps_front(Ref n) const {
    const auto front = static_cast<size_t>(scan_.axis) + 1;
    const Shape& left = scan_.left->shape;
    return n->shape.size() >= front && std::equal(left.begin(), left.begin() + front, n->shape.begin());
  }

  const ScanTensors& scan_;
  const Refs order_;
  std::unordered_map<const Node*, Refs> users_;
  std::unordered_set<const Node*> made_;
};

Ref without_movement(Ref n) {
  while (is_move(n->op)) n = operand_of(n);
  return n;
}

// The axes of a store of what steps leave: those of output_loops().
struct StepLoops {
  StepLoops(const ScanTensors& scan)
      : loops(output_loops(scan.left->shape)), step(loops.index[static_cast<size_t>(scan.axis)]) {}
  OutputLoops loops;
  Ref step;
};

}  // namespace

Ref split_scans(Ref root, std::vector<ScanTensors>& scans) {
  if (root->op != Op::Sink) return root;
  Refs others;
  for (Ref n : root->src) {
    if (n->op != Op::Write || !is_leaving(n)) {
      others.push_back(n);
      continue;
    }
    ScanTensors& scan = scans.emplace_back();
    scan.axis = axis_of_steps(n);
    scan.left = WriteView(n).buffer, scan.next = WriteView(n).rows;
  }
  return scans.empty() ? root : sink(std::move(others));
}

void find_members(Ref root, ScanTensors& scan) {
  const Members members(root, scan);
  for (Ref n : members.order()) {
    if (n->op == Op::Write && without_movement(WriteView(n).rows) == scan.next) scan.writes.push_back(n);
    if (!members.contains(n)) continue;
    scan.made.push_back(n);
    const bool is_end = members.is_read_outside(n);
    ENSURE(n->op == Op::Place || !is_end, "what is made step by step leaves a scan without a place");
    if (n->op == Op::Place) (is_end ? scan.ends : scan.inner).push_back(n);
  }
  ENSURE(contains(scan.inner, scan.next),
         "what a step leaves has a place, and is read by steps and by writes of all of it alone");
}

Ref store_before(Lowering& lowering, const ScanTensors& scan) {
  const auto [loops, step] = StepLoops(scan);
  Refs ranges = loops.ranges;
  std::erase(ranges, step);
  const LoadView next(lowering.at(scan.next, loops.index));
  return make_store(next.buffer, next.offset, constant_f(0, scan.next->dtype), ranges);
}

// The loops are those of what is left, in place of those of rows and columns.
Ref store_written(Lowering& lowering, const ScanTensors& scan, Ref write) {
  const auto [loops, step] = StepLoops(scan);
  const auto [buffer, rows, values] = WriteView(write);
  Ref column = constant(0);
  for (size_t k = 0; k < loops.index.size(); ++k)
    if (static_cast<int>(k) != scan.axis) column = simplify(column * scan.left->shape[k] + loops.index[k]);
  const Ref left = lowering.at(values, {step, column});
  ENSURE(left == lowering.at(scan.next, loops.index), "a scan writes what a step leaves in its order");
  const Ref row = simplify(cast(lowering.at(rows, {step}), DType::I64));
  const Ref offset = byte_offset(write->shape, {row, simplify(column + first_column(write))}, write->dtype);
  return make_store(written_buffer(buffer), offset, left, loops.ranges);
}

namespace {

// Offsets at which a store reads on-chip buffers.
std::map<Ref, Refs, bool (*)(Ref, Ref)> reads_on_chip(Ref store) {
  std::map<Ref, Refs, bool (*)(Ref, Ref)> reads([](Ref a, Ref b) { return a->arg.i < b->arg.i; });
  for (Ref n : toposort(StoreView(store).value))
    if (n->op == Op::Load && LoadView(n).buffer->op == Op::Local)
      reads[LoadView(n).buffer].push_back(LoadView(n).offset);
  return reads;
}

}  // namespace

void reuse_buffers(Refs& before, Refs& steps) {
  struct Life {
    std::optional<size_t> stored, first_read;
    size_t last_read = 0;
    bool is_passed_on() const { return !stored || !first_read || *first_read <= *stored; }  // to the next step
  };
  std::map<int64_t, Life> lives;  // by number
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const auto& [buffer, offsets] : reads_on_chip(steps[i])) {
      Life& life = lives[number_of_buffer(buffer)];
      if (!life.first_read) life.first_read = i;
      life.last_read = i;
    }
    if (const Ref buffer = StoreView(steps[i]).buffer; buffer->op == Op::Local)
      lives[number_of_buffer(buffer)].stored = i;
  }
  Replacements by;
  const auto owner = [&](Ref buffer) {
    for (auto it = by.find(buffer); it != by.end(); it = by.find(buffer)) buffer = it->second;
    return buffer;
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const StoreView store(steps[i]);
    if (store.buffer->op != Op::Local) continue;
    for (const auto& [buffer, offsets] : reads_on_chip(steps[i])) {
      const Life& life = lives.at(number_of_buffer(buffer));
      const bool is_dead = !life.is_passed_on() && life.last_read == i;
      const bool is_own =
          std::all_of(offsets.begin(), offsets.end(), [&](Ref offset) { return offset == store.offset; });
      const bool is_alike = buffer->dtype == store.buffer->dtype && local_bytes(buffer) == local_bytes(store.buffer);
      if (!is_dead || !is_own || !is_alike) continue;
      by[store.buffer] = owner(buffer);
      break;
    }
  }
  for (auto& [from, to] : by) to = owner(to);
  for (Refs* stores : {&before, &steps})
    for (Ref& store : *stores) store = substitute(store, by);
}

}  // namespace smelt
