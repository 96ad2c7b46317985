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

// An option whose axis goes by the number of its range.
struct NamedOpt {
  OptKind kind;
  int64_t range = 0;
  int64_t amount = 0;
};
using NamedOpts = std::vector<NamedOpt>;

NamedOpts with_names(Refs stores, const std::vector<Opt>& opts) {
  NamedOpts named;
  for (const Opt& opt : opts) {
    named.push_back({opt.kind, RangeView(axes_of(stores)[static_cast<size_t>(opt.axis)]).number, opt.amount});
    stores = apply_opt(stores, opt);
  }
  return named;
}

bool is_part_of(int64_t part, int64_t whole) {
  while (part > whole) part /= 2;
  return part == whole;
}

// The position of a range, or else of the whole that it would have been cut from, or of its first part that is free.
int position_of(const Refs& axes, int64_t number) {
  const auto find = [&](auto fits) {
    const auto found = std::find_if(axes.begin(), axes.end(), fits);
    return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
  };
  if (const int exact = find([&](Ref r) { return RangeView(r).number == number; }); exact >= 0) return exact;
  if (const int whole = find([&](Ref r) { return is_part_of(number, RangeView(r).number); }); whole >= 0) return whole;
  return find([&](Ref r) { return is_serial(r) && is_part_of(RangeView(r).number, number); });
}

// A list of options that grows on the stores it applies to.
class OptList {
 public:
  explicit OptList(Refs stores) : stores_(std::move(stores)) {}

  bool add(const Opt& opt) {
    if (opt.axis < 0 || !why_not(stores_, opt).empty()) return false;
    stores_ = apply_opt(stores_, opt);
    opts_.push_back(opt);
    return true;
  }

  void add(const NamedOpt& opt) { add(Opt{opt.kind, position_of(axes_of(stores_), opt.range), opt.amount}); }

  // Outermost loops become tasks until there are enough to share out.
  void add_tasks(int wanted) {
    int64_t tasks = 1;
    for (Ref r : axes_of(stores_))
      if (kind_of(r) == RangeKind::Task) tasks *= std::max<int64_t>(known_divisor(RangeView(r).size), 1);
    while (tasks < wanted) {
      const Refs axes = axes_of(stores_);
      const auto loop = std::find_if(axes.begin(), axes.end(), [](Ref r) { return kind_of(r) == RangeKind::Loop; });
      if (loop == axes.end() || !add(Opt{OptKind::Task, static_cast<int>(loop - axes.begin())})) return;
      tasks *= const_int(RangeView(*loop).size).value_or(1);
    }
  }

  const Refs& stores() const { return stores_; }
  const std::vector<Opt>& opts() const { return opts_; }

 private:
  Refs stores_;
  std::vector<Opt> opts_;
};

class Neighbours {
 public:
  Neighbours(const Refs& stores, const std::vector<Opt>& opts, const Machine& machine, bool is_local)
      : stores_(stores), named_(with_names(stores, opts)), machine_(machine), is_local_(is_local), seen_{opts} {
    tail_ = static_cast<size_t>(
        std::find_if(named_.begin(), named_.end(),
                     [](const NamedOpt& o) { return o.kind == OptKind::Front || o.kind == OptKind::Task; }) -
        named_.begin());
    first_task_ = static_cast<size_t>(
        std::find_if(named_.begin(), named_.end(), [](const NamedOpt& o) { return o.kind == OptKind::Task; }) -
        named_.begin());
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
    OptList list(stores_);
    for (size_t i = 0; i < count; ++i) list.add(named_[i]);
    return list;
  }

  void keep(const OptList& list) {
    if (std::find(seen_.begin(), seen_.end(), list.opts()) != seen_.end()) return;
    seen_.push_back(list.opts());
    out_.push_back(list.opts());
  }

  // What stood behind position `from`, as far as it still fits.
  void finish(OptList list, size_t from) {
    for (size_t i = from; i < named_.size(); ++i) list.add(named_[i]);
    if (!is_local_ && first_task_ < named_.size()) list.add_tasks(machine_.tasks);
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
      if (!has_amount(named_[i].kind)) continue;
      const OptList before = front_part(i);
      const int axis = position_of(axes_of(before.stores()), named_[i].range);
      if (axis < 0) continue;
      for (int64_t amount : amounts(axes_of(before.stores())[static_cast<size_t>(axis)])) {
        OptList list = before;
        if (amount != named_[i].amount && list.add(Opt{named_[i].kind, axis, amount})) finish(list, i + 1);
      }
    }
  }

  // Lanes along another axis, or of the other kind.
  void move_lanes() {
    for (size_t i = 0; i < tail_; ++i) {
      if (!is_lanes(named_[i].kind)) continue;
      const OptList before = front_part(i);
      const int axes = static_cast<int>(axes_of(before.stores()).size());
      for (OptKind kind : {OptKind::Local, OptKind::Group})
        for (int axis = 0; axis < axes; ++axis)
          for (int64_t amount : {machine_.lanes(), machine_.lanes() / 2, machine_.lanes() / 4}) {
            OptList list = before;
            if (list.add(Opt{kind, axis, amount})) finish(list, i + 1);
          }
    }
  }

  void put_in() {
    const OptList before = front_part(tail_);
    const Refs axes = axes_of(before.stores());
    for (OptKind kind : kKinds) {
      if (!has_amount(kind)) continue;
      for (size_t axis = 0; axis < axes.size(); ++axis)
        for (int64_t amount : amounts(axes[axis])) {
          OptList list = before;
          if (!list.add(Opt{kind, static_cast<int>(axis), amount})) continue;
          finish(list, tail_);
          if (kind == OptKind::Split) block(list);
        }
    }
  }

  // A loop in two changes nothing until the outer part moves: outside of all the others, in blocks.
  void block(OptList list) {
    for (size_t i = tail_; i < first_task_; ++i) list.add(named_[i]);
    const Refs axes = axes_of(list.stores());
    for (size_t axis = 1; axis < axes.size(); ++axis) {
      OptList moved = list;
      if (is_part(RangeView(axes[axis]).number) && is_serial(axes[axis]) &&
          moved.add(Opt{OptKind::Front, static_cast<int>(axis)}))
        finish(moved, first_task_);
    }
  }

  void leave_out() {
    for (size_t i = 0; i < named_.size(); ++i) finish(front_part(i), i + 1);
  }

  void reorder() {
    const OptList before = front_part(first_task_);
    const int axes = static_cast<int>(axes_of(before.stores()).size());
    for (int axis = 1; axis < axes; ++axis) {
      OptList list = before;
      if (!list.add(Opt{OptKind::Front, axis})) continue;
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
  const NamedOpts named_;
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
