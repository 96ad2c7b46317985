#include "schedule/placement.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/ensure.h"
#include "graph/args.h"
#include "graph/node_map.h"
#include "graph/operands.h"
#include "graph/tensor.h"
#include "schedule/marked_axes.h"

namespace smelt {
namespace {

constexpr int64_t kOutputsOfFew = 16;  // for each processor, at most: of a kernel that has few blocks
constexpr int64_t kTimesForFew = 4;    // as many operations each of these rather repeats as one of many blocks

bool is_leaf(Ref n) { return class_of(n->op) == OpClass::leaf; }

// --- sizes

int64_t constant_count(const Shape& shape) {  // symbolic axes count as 1
  int64_t n = 1;
  for (Ref d : shape) n *= const_int(d).value_or(1);
  return n;
}

// For ratios: an axis of unknown length counts as long.
double typical_count(const Shape& shape) {
  double n = 1;
  for (Ref d : shape) n *= static_cast<double>(const_int(d).value_or(1024));
  return n;
}

bool has_symbolic_axis(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Ref d) { return !const_int(d); });
}

// --- the analysis

class Placement {
 public:
  Placement(const SplitGraph& split, const Machine& machine, bool tells)
      : machine_(machine), tells_(tells), order_(toposort(split.root)) {
    for (Ref n : order_)
      for (Ref s : n->src) users_[s.get()].push_back(n);
    for (const TileTensors& tile : split.tiles)
      for (const Refs& tensors : {tile.inner, tile.rows})
        for (Ref n : tensors) {
          places_[n.get()] = Where::InTile;
          note(n, "the task of a tile makes it and reads it, part by part");
        }
    for (const Node* p : split.partials) {
      places_[p] = Where::Memory;
      note(Ref(p), "a partial result of a split reduction: one value for each chunk");
      kernel_of_[p] = without_movement(operand_of(Ref(p)));
    }
    // The nests of a tile recompute what they have in common.
    for (const TileTensors& tile : split.tiles)
      for (Ref n : tile.results) kernel_of_.erase(n.get());
    for (Ref n : order_)
      if (n->op == Op::Output && can_be_placed(operand_of(n))) {
        places_[operand_of(n).get()] = Where::Memory;
        note(operand_of(n), "leaves the segment");
      }
  }

  std::unordered_map<const Node*, Where> run() {
    const std::unordered_set<const Node*> required = keys();
    for (Ref n : order_)
      if (n->op == Op::Place && !placed(n)) {
        places_[n.get()] = Where::Memory;
        note(n, "the model asks for a place");
      }
    for (auto it = order_.rbegin(); it != order_.rend(); ++it)
      if (!placed(*it) && can_be_placed(*it) && needs_place(*it)) places_[it->get()] = Where::Memory;
    // Readers first: what is on chip belongs to the kernels of these.
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Ref n = *it;
      if (!placed(n) || required.contains(n.get()) || !fits_on_chip(n)) continue;
      places_[n.get()] = Where::OnChip;
      if (tells_)
        note(n, why_[n.get()] + "; small enough for every worker to compute it for itself (" +
                    std::to_string(constant_count(n->shape) * size_of(n->dtype)) + " bytes, " +
                    std::to_string(work(n)) + " operations), which costs less than one more level");
    }
    return places_;
  }

  // Of each tensor that could have a place. REQUIRES: run() is done.
  void tell(const PlaceObserver& observe) const {
    for (Ref n : order_)
      if (const auto why = why_.find(n.get()); why != why_.end()) {
        const auto place = places_.find(n.get());
        observe({n, place == places_.end() ? std::nullopt : std::optional(place->second), why->second});
      }
  }

 private:
  std::unordered_set<const Node*> keys() const {
    std::unordered_set<const Node*> out;
    for (const auto& [node, where] : places_) out.insert(node);
    return out;
  }

  static const Node* without_movement(Ref n) {
    while (is_move(n->op)) n = operand_of(n);
    return n.get();
  }

  bool placed(Ref n) const { return places_.contains(n.get()); }
  static bool can_be_placed(Ref n) { return is_elementwise(n->op) ? !n->shape.empty() : is_reduce(n->op); }

  void note(Ref n, std::string why) {
    if (tells_) why_[n.get()] = std::move(why);
  }

  bool needs_place(Ref n) {
    if (is_index_of_smaller(n)) {
      note(n, "integers made of smaller tensors, which are worth a place rather than these");
      return false;
    }
    const bool reduces = holds_reduction(n);
    if (!reduces && reading_again_is_cheaper(n)) {
      if (tells_) note(n, why_again(n));
      return false;
    }
    roots_.clear();
    direct_roots_.clear();
    summed_roots_.clear();
    summed_ = false;
    const bool spread = is_spread(n, {}, n);
    const bool needed = spread || (reduces && (roots_.size() > 1 || is_needed_twice()));
    if (tells_) note(n, spread ? kSpread : needed ? why_reduction() : kInside);
    return needed;
  }

  static constexpr const char* kSpread =
      "a later operation reads it again for every row: it would be computed as often";
  static constexpr const char* kInside =
      "nobody else would compute it again, so it is computed inside of the kernel that reads it";

  std::string why_reduction() const {
    if (roots_.size() > 1)
      return "holds a reduction, which " + std::to_string(roots_.size()) + " placed tensors would repeat";
    return "one tensor reads its elements and a reduction over them: it would be computed twice";
  }

  std::string why_again(Ref n) {
    const auto [bytes, operations] = cost_of_reading_again(n);
    char text[160];
    std::snprintf(text, sizeof text,
                  "to compute it again reads %.3g bytes an element and takes %d operations; stored it takes %d", bytes,
                  operations, size_of(n->dtype));
    return text;
  }

  // A root that reads n element by element and also a reduction over n, as a norm does, would compute each element
  // twice.
  bool is_needed_twice() const {
    return std::any_of(roots_.begin(), roots_.end(),
                       [&](const Node* r) { return direct_roots_.contains(r) && summed_roots_.contains(r); });
  }

  // Would a kernel that reads `n` through its uses compute an element more than once? `marked` are the axes of
  // `at` along which elements of `n` repeat. Collects the placed tensors in whose kernels `n` would be computed.
  bool is_spread(Ref n, const Axes& marked, Ref at) {
    for (Ref user : users_[at.get()]) {
      if (user->op == Op::Sink) continue;
      if (is_spread_in(n, marked, at, user)) return true;
    }
    return false;
  }

  bool is_spread_in(Ref n, const Axes& marked, Ref at, Ref user) {
    if (user->op == Op::Output || user->op == Op::Write) return ends_spread(n, marked, at, user);
    if (user->op == Op::Gather) {
      if (GatherView(user).rows == at) return holds_reduction(n) || !marked.empty();
      Axes wider = marked;
      for (size_t k = at->shape.size(); k < user->shape.size(); ++k) wider.insert(static_cast<int>(k));
      return continues(n, wider, user);
    }
    if (user->op == Op::Expand) {
      Axes wider = marked;
      wider.merge(expanded_axes(user));
      if (score_of_softmax(user)) return continues(n, marked, user);
      return continues(n, wider, user);
    }
    if (is_move(user->op)) return continues(n, through_move(user, marked), user);
    if (is_reduce(user->op)) return spreads_in_reduction(n, marked, user);
    // Without a reduction in it, only the last tensor before the axes it is spread over is worth a place: what that
    // one is made of is inside it.
    if (marked.empty() && !holds_reduction(n)) return false;
    return continues(n, marked, user);
  }

  bool spreads_in_reduction(Ref n, const Axes& marked, Ref user) {
    const int axis = static_cast<int>(reduced_axes(user)[0]);
    if (user->op == Op::TopK) return continues(n, marked, user);
    const Axes rest = without_axis(marked, axis);
    if (rest.empty()) {
      const bool outer = summed_;
      summed_ |= !marked.contains(axis);
      const bool spread = continues(n, rest, user);
      summed_ = outer;
      return spread;
    }
    // A contraction: all of n is read for every value of the remaining marked axes.
    if (!marked.contains(axis)) return true;
    return constant_count(n->shape) > 1 || has_symbolic_axis(n->shape) || work(n) > machine_.local_operations ||
           continues(n, rest, user);
  }

  bool continues(Ref n, const Axes& marked, Ref user) {
    if (placed(user)) return ends_spread(n, marked, user, user);
    return is_spread(n, marked, user);
  }

  // In the placed tensor that ends the walk, n may be invariant in the inner loops, which then hoist it.
  bool ends_spread(Ref n, const Axes& marked, Ref at, Ref root) {
    const auto kernel = kernel_of_.find(root.get());
    const Node* known_as = kernel == kernel_of_.end() ? root.get() : kernel->second;
    roots_.insert(known_as);
    (summed_ ? summed_roots_ : direct_roots_).insert(known_as);
    if (!holds_reduction(n)) return false;
    int last_own = -1;
    for (size_t k = 0; k < at->shape.size(); ++k)
      if (!marked.contains(static_cast<int>(k)) && !is_const(at->shape[k], 1)) last_own = static_cast<int>(k);
    return std::any_of(marked.begin(), marked.end(), [&](int a) { return a < last_own; });
  }

  // A score that is expanded over the columns of its value: these are in registers side by side, so it is computed
  // once.
  bool score_of_softmax(Ref expand) const {
    const auto& uses = users_.at(expand.get());
    int64_t columns = 1;
    for (int a : expanded_axes(expand)) columns *= const_int(expand->shape[a]).value_or(1 << 20);
    const auto leads_to_softmax = [&](Ref u) {
      while (u->op == Op::Reshape && users_.at(u.get()).size() == 1) u = users_.at(u.get())[0];
      return u->op == Op::SoftmaxSum;
    };
    return columns <= 1024 && std::all_of(uses.begin(), uses.end(), leads_to_softmax);
  }

  // Comparisons and arithmetic on integers, whose reductions are all of smaller tensors: these are
  // worth a place, not it.
  bool is_index_of_smaller(Ref n) const {
    if (is_float(n->dtype) || is_reduce(n->op)) return false;
    if (n->op == Op::Expand || placed(n)) return true;
    return std::all_of(n->src.begin(), n->src.end(), [&](Ref s) { return is_leaf(s) || is_index_of_smaller(s); });
  }

  // The indices of a gather are not part of what it holds: they would be recomputed for all columns, so they get a
  // place of their own.
  bool holds_reduction(Ref n) {
    if (is_reduce(n->op)) return true;
    if (n->op == Op::Gather) return !placed(GatherView(n).rows) && holds_reduction(GatherView(n).rows);
    if (auto it = holds_.find(n.get()); it != holds_.end()) return it->second;
    bool holds = false;
    for (Ref s : n->src)
      if (n->op != Op::Write && !placed(s)) holds |= holds_reduction(s);
    return holds_[n.get()] = holds;
  }

  // Bytes per element read when n is recomputed, against the bytes of a stored element.
  bool reading_again_is_cheaper(Ref n) {
    const auto [bytes, operations] = cost_of_reading_again(n);
    // Integer arithmetic on what was read is nearly free; float operations are worth saving at equal bytes.
    const bool is_cheap = operations == 0 || (!is_float(n->dtype) && bytes <= size_of(n->dtype));
    return is_cheap || bytes < size_of(n->dtype);
  }

  struct AgainCost {
    double bytes = 0;  // of each element
    int operations = 0;
  };
  AgainCost cost_of_reading_again(Ref n) {
    AgainCost cost;
    std::unordered_set<const Node*> seen;
    collect_leaves(n, typical_count(n->shape), seen, cost.bytes, cost.operations);
    return cost;
  }

  void collect_leaves(Ref n, double elements, std::unordered_set<const Node*>& seen, double& bytes, int& operations) {
    if (!seen.insert(n.get()).second) return;
    if (n->op == Op::Param || n->op == Op::Write || placed(n)) {
      bytes += std::min(1.0, typical_count(n->shape) / elements) * size_of(n->dtype);
      return;
    }
    if (is_elementwise(n->op) && n->op != Op::Cast && n->op != Op::Bitcast) ++operations;
    // The indices of a gather are computed once for all columns.
    if (n->op == Op::Gather) return collect_leaves(GatherView(n).rows, elements, seen, bytes, operations);
    for (Ref s : n->src) collect_leaves(s, elements, seen, bytes, operations);
  }

  // Scalar operations to compute all of n from placed tensors.
  int64_t work(Ref n) {
    std::unordered_set<const Node*> seen;
    int64_t total = 0;
    const std::function<void(Ref)> visit = [&](Ref x) {
      if (!seen.insert(x.get()).second) return;
      if (is_elementwise(x->op)) total += constant_count(x->shape);
      if (is_reduce(x->op)) total += constant_count(reduced_tensor(x)->shape);
      for (Ref s : x->src)
        if (!placed(s) && !is_leaf(s)) visit(s);
    };
    visit(n);
    return total;
  }

  // Whether each of the many tasks of a product could make its own part of n right away (follow_rows): no result is
  // made of more than a task has.
  bool may_follow(Ref n) {
    if (!machine_.has_threads() || has_symbolic_axis(n->shape)) return false;
    bool reads_product = false;
    std::unordered_set<const Node*> seen;
    const std::function<bool(Ref)> is_in_parts = [&](Ref x) {
      if (!seen.insert(x.get()).second) return true;
      if (x != n && placed(x)) {
        reads_product |= work(x) > machine_.small_kernel_operations || reads_symbolic(x) || may_follow(x);
        return constant_count(x->shape) >= machine_.tasks;
      }
      const bool is_part = is_move(x->op) && constant_count(x->shape) < constant_count(operand_of(x)->shape);
      if (is_part || (is_reduce(x->op) && constant_count(x->shape) < machine_.tasks)) return false;
      return std::all_of(x->src.begin(), x->src.end(), is_in_parts);
    };
    return is_in_parts(n) && reads_product;
  }

  bool fits_on_chip(Ref n) {
    return !has_symbolic_axis(n->shape) && !may_follow(n) &&
           constant_count(n->shape) * size_of(n->dtype) <= machine_.local_bytes && work(n) <= local_operations(n) &&
           !reads_symbolic(n);
  }

  // What is there for each token of a batch, a small kernel reads token by token: its blocks would make too much of it.
  int64_t local_operations(Ref n) {
    const int64_t tokens = n->shape.empty() ? 1 : const_int(n->shape[0]).value_or(1),
                  of_small = machine_.small_kernel_local_operations / std::max<int64_t>(tokens, 1);
    if (is_read_by_small(n) || (names_rows(n) && work_on_names(n) <= of_small))
      return std::max(machine_.local_operations, of_small);
    const bool is_repeated_by_few = is_read_by_few_blocks(n) && sums_follow_bytes(n);
    const int64_t of_few = std::min(kTimesForFew * machine_.local_operations, of_small);
    return std::max(machine_.local_operations, is_repeated_by_few ? of_few : 0);
  }

  // Whether n are integers of which the numbers of a Gather are made: what says which rows a kernel reads, such as
  // which experts. Made by its own blocks, it lets them begin a level earlier, beside what does not depend on it.
  bool names_rows(Ref n) {
    NodeSet seen;
    Refs stack{n};
    while (!stack.empty()) {
      const Ref at = stack.back();
      stack.pop_back();
      if (!is_int(at->dtype) && at->dtype != DType::Bool) continue;
      for (Ref user : users_[at.get()]) {
        if (user->op == Op::Gather && GatherView(user).numbers == at) return true;
        if (seen.insert(user)) stack.push_back(user);
      }
    }
    return false;
  }

  // Operations of n and of all integers that it is made of, in whichever kernel: it begins earlier only with all of
  // them.
  int64_t work_on_names(Ref n) {
    int64_t total = 0;
    NodeSet seen;
    const std::function<void(Ref)> visit = [&](Ref x) {
      if (!seen.insert(x) || is_leaf(x) || is_float(x->dtype)) return;
      if (is_elementwise(x->op)) total += constant_count(x->shape);
      if (is_reduce(x->op)) total += constant_count(reduced_tensor(x)->shape);
      for (Ref s : x->src) visit(s);
    };
    visit(n);
    return total;
  }

  // Products of few rows, each a long sum.
  bool is_read_by_few_blocks(Ref n) {
    return is_read_only_by(n, [&](Ref user) {
      return constant_count(user->shape) <= kOutputsOfFew * machine_.tasks &&
             work(user) > machine_.small_kernel_operations;
    });
  }

  // Sums of bytes are made where the bytes are.
  bool sums_follow_bytes(Ref n) {
    if (n->dtype != DType::I32) return true;
    NodeSet seen;
    const std::function<bool(Ref)> are_on_chip = [&](Ref x) {
      if (!seen.insert(x) || is_leaf(x)) return true;
      if (size_of(x->dtype) == 1 && is_int(x->dtype) && x != n) return fits_on_chip(x);
      return std::all_of(x->src.begin(), x->src.end(), are_on_chip);
    };
    return are_on_chip(n);
  }

  // Whether all kernels that n would be computed in have few operations of their own.
  bool is_read_by_small(Ref n) {
    return is_read_only_by(n, [&](Ref user) { return work(user) <= machine_.small_kernel_operations; });
  }

  // Whether all kernels that n would be computed in are such ones. REQUIRES: readers have places.
  template <typename Is>
  bool is_read_only_by(Ref n, Is is) {
    NodeSet seen;
    Refs stack{n};
    while (!stack.empty()) {
      const Ref at = stack.back();
      stack.pop_back();
      for (Ref user : users_[at.get()]) {
        if (!seen.insert(user)) continue;
        const auto place = places_.find(user.get());
        if (place == places_.end() ? user->op != Op::Write : place->second == Where::OnChip)
          stack.push_back(user);
        else if (has_symbolic_axis(user->shape) || !is(user))
          return false;
      }
    }
    return true;
  }

  bool reads_symbolic(Ref n) {
    std::unordered_set<const Node*> seen;
    const std::function<bool(Ref)> visit = [&](Ref x) {
      if (!seen.insert(x.get()).second) return false;
      if (is_reduce(x->op) && has_symbolic_axis(reduced_tensor(x)->shape)) return true;
      return std::any_of(x->src.begin(), x->src.end(), [&](Ref s) { return !placed(s) && visit(s); });
    };
    return visit(n);
  }

  const Machine& machine_;
  const bool tells_;  // reasons are wanted
  std::unordered_map<const Node*, std::string> why_;
  Refs order_;
  std::unordered_map<const Node*, Refs> users_;
  std::unordered_map<const Node*, Where> places_;
  // Partial results over one score or summand are computed side by side in one kernel, known by that tensor.
  std::unordered_map<const Node*, const Node*> kernel_of_;
  std::unordered_map<const Node*, bool> holds_;
  std::unordered_set<const Node*> roots_;         // of the walk under way
  std::unordered_set<const Node*> direct_roots_;  // those reached without a reduction over an axis of the tensor
  std::unordered_set<const Node*> summed_roots_;  // and those reached through one
  bool summed_ = false;                           // whether the walk has passed such a reduction
};

}  // namespace

std::unordered_map<const Node*, Where> choose_places(const SplitGraph& split, const Machine& machine,
                                                     const PlaceObserver& observe) {
  Placement placement(split, machine, observe != nullptr);
  auto places = placement.run();
  if (observe) placement.tell(observe);
  return places;
}

}  // namespace smelt
