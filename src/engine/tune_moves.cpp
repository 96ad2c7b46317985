#include "engine/tune_moves.h"

#include <algorithm>

#include "graph/rules_algebra.h"

namespace smelt {
namespace {

// Without PACK, which only nests of panels have.
constexpr OptKind kKinds[] = {OptKind::Local,  OptKind::Group, OptKind::Upcast, OptKind::Unroll, OptKind::Dot,
                              OptKind::Matrix, OptKind::Split, OptKind::Front,  OptKind::Task,   OptKind::Panel};
constexpr int64_t kAmounts[] = {2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128, 256};

// The compiler asks for a line when a kind is added; then it belongs in kKinds, too.
bool has_amount(OptKind kind) {
  switch (kind) {
    case OptKind::Local:
    case OptKind::Group:
    case OptKind::Upcast:
    case OptKind::Unroll:
    case OptKind::Dot:
    case OptKind::Matrix:
    case OptKind::Pack:
    case OptKind::Split:
    case OptKind::Panel: return true;
    case OptKind::Front:
    case OptKind::Task: return false;
  }
  return false;
}

bool is_lanes(OptKind kind) { return kind == OptKind::Local || kind == OptKind::Group; }

bool is_part_of(int64_t part, int64_t whole) {
  while (part > whole) part /= 2;
  return part == whole;
}

// The range of an id in a list of options that has changed before it: itself, or else the whole that it would have been
// cut from, or of its parts the first that is free. Null if there is none.
Ref axis_near(const Refs& stores, RangeId id) {
  if (const Ref exact = axis_of(stores, id)) return exact;
  const Refs axes = axes_of(stores);
  const auto find = [&](auto fits) {
    const auto found = std::find_if(axes.begin(), axes.end(), fits);
    return found == axes.end() ? Ref() : *found;
  };
  if (const Ref whole = find([&](Ref r) { return is_part_of(id.number, RangeView(r).number); })) return whole;
  return find([&](Ref r) { return is_serial(r) && is_part_of(RangeView(r).number, id.number); });
}

// A list of options that grows on the stores it applies to, by the rules of a machine.
class OptList {
 public:
  OptList(Refs stores, const LaneRules& rules) : stores_(std::move(stores)), rules_(rules) {}

  bool add(const Opt& opt) {
    OptResult result = try_opt(stores_, opt, rules_);
    if (!result) return false;
    stores_ = std::move(result.stores);
    opts_.push_back(opt);
    return true;
  }

  bool add(OptKind kind, Ref axis, int64_t amount = 0) { return add({kind, id_of(stores_, axis), amount}); }

  // An option of another list, as far as it fits here.
  void add_near(const Opt& opt) {
    if (const Ref axis = axis_near(stores_, opt.axis)) add(opt.kind, axis, opt.amount);
  }

  // Outermost loops become tasks until there are enough to share out.
  void add_tasks(int wanted) {
    int64_t tasks = 1;
    for (Ref r : axes_of(stores_))
      if (kind_of(r) == RangeKind::Task) tasks *= std::max<int64_t>(known_divisor(RangeView(r).size), 1);
    while (tasks < wanted) {
      const Refs axes = axes_of(stores_);
      const auto loop = std::find_if(axes.begin(), axes.end(), [](Ref r) { return kind_of(r) == RangeKind::Loop; });
      if (loop == axes.end() || !add(OptKind::Task, *loop)) return;
      tasks *= const_int(RangeView(*loop).size).value_or(1);
    }
  }

  const Refs& stores() const { return stores_; }
  const std::vector<Opt>& opts() const { return opts_; }

 private:
  Refs stores_;
  LaneRules rules_;
  std::vector<Opt> opts_;
};

class Neighbours {
 public:
  Neighbours(const Refs& stores, const std::vector<Opt>& opts, const Machine& machine, bool is_local)
      : stores_(stores), start_(opts), machine_(machine), is_local_(is_local), seen_{opts} {
    tail_ = static_cast<size_t>(
        std::find_if(start_.begin(), start_.end(),
                     [](const Opt& o) { return o.kind == OptKind::Front || o.kind == OptKind::Task; }) -
        start_.begin());
    first_task_ = static_cast<size_t>(
        std::find_if(start_.begin(), start_.end(), [](const Opt& o) { return o.kind == OptKind::Task; }) -
        start_.begin());
  }

  std::vector<std::vector<Opt>> all() {
    change_amounts();
    move_lanes();
    put_in();
    leave_out();
    reorder();
    share_differently();
    return std::move(out_);
  }

 private:
  // The first `count` options as they are.
  OptList front_part(size_t count) const {
    OptList list(stores_, lane_rules(machine_));
    for (size_t i = 0; i < count; ++i) list.add_near(start_[i]);
    return list;
  }

  void keep(const OptList& list) {
    if (std::find(seen_.begin(), seen_.end(), list.opts()) != seen_.end()) return;
    seen_.push_back(list.opts());
    out_.push_back(list.opts());
  }

  // What stood behind position `from`, as far as it still fits.
  void finish(OptList list, size_t from) {
    for (size_t i = from; i < start_.size(); ++i) list.add_near(start_[i]);
    if (!is_local_ && first_task_ < start_.size()) list.add_tasks(machine_.tasks);
    keep(list);
  }

  std::vector<int64_t> amounts(Ref range) const {
    std::vector<int64_t> out(std::begin(kAmounts), std::end(kAmounts));
    if (const auto size = const_int(RangeView(range).size); size && *size > 1 && *size <= 64)
      if (std::find(out.begin(), out.end(), *size) == out.end()) out.push_back(*size);
    return out;
  }

  void change_amounts() {
    for (size_t i = 0; i < tail_; ++i) {
      if (!has_amount(start_[i].kind)) continue;
      const OptList before = front_part(i);
      const Ref axis = axis_near(before.stores(), start_[i].axis);
      if (!axis) continue;
      for (int64_t amount : amounts(axis)) {
        OptList list = before;
        if (amount != start_[i].amount && list.add(start_[i].kind, axis, amount)) finish(list, i + 1);
      }
    }
  }

  // Lanes along another axis, or of the other kind.
  void move_lanes() {
    for (size_t i = 0; i < tail_; ++i) {
      if (!is_lanes(start_[i].kind)) continue;
      const OptList before = front_part(i);
      for (OptKind kind : {OptKind::Local, OptKind::Group})
        for (Ref axis : axes_of(before.stores()))
          for (int64_t amount : {machine_.lanes(), machine_.lanes() / 2, machine_.lanes() / 4}) {
            OptList list = before;
            if (list.add(kind, axis, amount)) finish(list, i + 1);
          }
    }
  }

  void put_in() {
    const OptList before = front_part(tail_);
    const Refs axes = axes_of(before.stores());
    for (OptKind kind : kKinds) {
      if (!has_amount(kind)) continue;
      for (Ref axis : axes)
        for (int64_t amount : amounts(axis)) {
          OptList list = before;
          if (!list.add(kind, axis, amount)) continue;
          finish(list, tail_);
          if (kind == OptKind::Split) block(list);
        }
    }
  }

  // A loop in two changes nothing until the outer part moves: outside of all the others, in blocks.
  void block(OptList list) {
    for (size_t i = tail_; i < first_task_; ++i) list.add_near(start_[i]);
    const Refs axes = axes_of(list.stores());
    for (size_t i = 1; i < axes.size(); ++i) {
      OptList moved = list;
      if (is_part(RangeView(axes[i]).number) && is_serial(axes[i]) && moved.add(OptKind::Front, axes[i]))
        finish(moved, first_task_);
    }
  }

  void leave_out() {
    for (size_t i = 0; i < start_.size(); ++i) finish(front_part(i), i + 1);
  }

  void reorder() {
    const OptList before = front_part(first_task_);
    const Refs axes = axes_of(before.stores());
    for (size_t i = 1; i < axes.size(); ++i) {
      OptList list = before;
      if (!list.add(OptKind::Front, axes[i])) continue;
      // The loops that were tasks may now stand inside: which are shared out is chosen anew.
      if (!is_local_) list.add_tasks(machine_.tasks);
      keep(list);
    }
  }

  void share_differently() {
    if (is_local_) return;
    for (int wanted : {2, 8, 64, 512, 4096}) {
      OptList list = front_part(first_task_);
      list.add_tasks(wanted);
      keep(list);
    }
  }

  const Refs& stores_;
  const std::vector<Opt>& start_;
  const Machine& machine_;
  const bool is_local_;
  size_t tail_ = 0, first_task_ = 0;  // where loops begin to be ordered, where to be shared out
  std::vector<std::vector<Opt>> seen_, out_;
};

}  // namespace

std::vector<std::vector<Opt>> neighbours(const Refs& stores, const std::vector<Opt>& opts, const Machine& machine,
                                         bool is_local) {
  return Neighbours(stores, opts, machine, is_local).all();
}

std::vector<std::vector<Opt>> starting_points(const Refs& stores, const Machine& machine, bool is_local) {
  std::vector<std::vector<Opt>> out;
  for (int narrower : {1, 2, 4})
    for (int64_t tasks : {machine.tasks, machine.tasks * 8, machine.tasks / 8}) {
      Machine other = machine;
      other.vector_bytes = std::max<int64_t>(other.vector_bytes / narrower, 4);
      other.tasks = std::max<int64_t>(tasks, 1);
      std::vector<Opt> opts = choose_opts(stores, other, is_local);
      if (std::find(out.begin(), out.end(), opts) == out.end()) out.push_back(std::move(opts));
    }
  return out;
}

}  // namespace smelt
