#include "codegen/linearize.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/ensure.h"
#include "codegen/opt.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr double kLowest = -3.4028234663852886e38;
constexpr double kLog2E = 1.4426950408889634;
constexpr int64_t kStreamedBytes = 1 << 18;  // what is larger does not stay in a cache
constexpr int64_t kPrefetchBytes = 12288;    // ahead of the reads

int64_t lowest_integer(DType dtype) {
  return is_signed_int(dtype) ? static_cast<int64_t>(~uint64_t{0} << (8 * size_of(dtype) - 1)) : 0;
}

using RangeSet = std::set<const Node*>;

// Facts about nodes of one nest, each computed once.
class Analysis {
 public:
  // Ranges that must be known before the node is: those of its reductions are not among them, their sizes' are.
  const RangeSet& free_ranges(Ref n) {
    if (auto it = free_.find(n.get()); it != free_.end()) return it->second;
    RangeSet set;
    for (Ref s : n->src) {
      const RangeSet& inner = free_ranges(s);
      set.insert(inner.begin(), inner.end());
    }
    if (n->op == Op::Range) set.insert(n.get());
    if (is_reduce(n->op) || n->op == Op::LaneReduce)
      for (Ref s : n->src)
        if (s->op == Op::Range && is_bound_by(n, s)) set.erase(s.get());
    return free_[n.get()] = std::move(set);
  }

  int lanes(Ref n) {
    if (auto it = lanes_.find(n.get()); it != lanes_.end()) return it->second;
    int count = 1;
    if (n->op == Op::Range)
      count = kind_of(n) == RangeKind::Lane ? static_cast<int>(n->src[0]->arg.i) : 1;
    else if (n->op != Op::LaneReduce)
      for (Ref s : n->src)
        if (!(is_reduce(n->op) && s->op == Op::Range)) count = std::max(count, lanes(s));
    return lanes_[n.get()] = count;
  }

  // Number of reductions on the longest path down, the node included.
  int height(Ref n) {
    if (auto it = height_.find(n.get()); it != height_.end()) return it->second;
    int h = 0;
    for (Ref s : n->src) h = std::max(h, height(s));
    return height_[n.get()] = h + is_reduce(n->op);
  }

  static bool is_bound_by(Ref n, Ref range) {
    return n->op == Op::LaneReduce ? kind_of(range) == RangeKind::Lane && n->src[1] == range
                                   : kind_of(range) == RangeKind::Reduce;
  }

 private:
  std::unordered_map<const Node*, RangeSet> free_;
  std::unordered_map<const Node*, int> lanes_;
  std::unordered_map<const Node*, int> height_;
};

Refs bound_ranges(Ref reduce) {
  Refs ranges;
  for (Ref s : reduce->src)
    if (s->op == Op::Range && kind_of(s) == RangeKind::Reduce) ranges.push_back(s);
  return ranges;
}

Refs terms_of(Ref reduce) {
  Refs terms;
  for (Ref s : reduce->src)
    if (!(s->op == Op::Range && kind_of(s) == RangeKind::Reduce)) terms.push_back(s);
  return terms;
}

Refs tile_ranges_of(const ExpandedNest& nest) {
  Refs out;
  const Ref store = nest.stores[0];
  for (size_t i = 3; i < store->src.size(); ++i)
    if (kind_of(store->src[i]) == RangeKind::Tile) out.push_back(store->src[i]);
  return out;
}

// How many of the first nests run together.
size_t size_of_tile(std::span<const ExpandedNest> nests) {
  const Refs ranges = tile_ranges_of(nests[0]);
  size_t n = 1;
  if (!ranges.empty())
    while (n < nests.size() && tile_ranges_of(nests[n]) == ranges) ++n;
  return n;
}

// Instructions under construction are named by ids that do not change when code moves.
struct Emitted {
  Instruction instruction;
  int id;
};
using Code = std::vector<Emitted>;

struct Value {
  int id = -1;
  int depth = 0;
  int lanes = 1;
};

class NestEmitter {
 public:
  // `nests` are one, or those of a tile.
  NestEmitter(std::span<const ExpandedNest> nests, std::vector<std::string>& symbols,
              std::map<int64_t, int64_t>& scratch, int64_t& scratch_bytes, int& next_id)
      : nests_(nests),
        symbols_(symbols),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes),
        next_id_(next_id) {}

  Code run() {
    scopes_.emplace_back();
    for (const ExpandedNest& nest : nests_)
      for (Ref s : nest.stores)
        if (nests_.size() > 1) written_.insert(s->src[0].get());
    const size_t opened = open_task_loop();
    for (const ExpandedNest& nest : nests_) {
      find_siblings(nest.stores);
      for (const Refs& group : groups_by_loops(nest.stores)) emit_stores(group);
    }
    if (opened) close_scope();
    return std::move(scopes_[0].code);
  }

 private:
  void find_siblings(const Refs& stores) {
    reductions_.clear();
    siblings_.clear();
    for (Ref s : stores)
      for (Ref n : toposort(s))
        if (is_reduce(n->op)) reductions_.insert(n.get());
    for (const Node* n : reductions_)
      siblings_[{bound_ranges(Ref(n)), facts_.height(Ref(n))}].push_back(Ref(n));
    for (auto& [key, group] : siblings_) std::sort(group.begin(), group.end(), structurally_less);
  }

  // An open loop. Its Loop instruction is written when it closes: until then invariants still go in front of it.
  struct Scope {
    Code code;
    int begin = -1, end = -1, loop = -1;
  };
  struct GroupKey {
    Refs ranges;
    int height;
    bool operator<(const GroupKey& o) const {
      const auto key = [](const Refs& r) {
        std::vector<uint64_t> k;
        for (Ref x : r) k.push_back(x->key);
        return k;
      };
      return std::make_pair(key(ranges), height) < std::make_pair(key(o.ranges), o.height);
    }
  };

  // --- loops

  int add(int depth, Instruction instruction) {
    scopes_[depth].code.push_back({std::move(instruction), next_id_});
    return next_id_++;
  }

  int top() const { return static_cast<int>(scopes_.size()) - 1; }

  void open_scope(int begin, int end) {
    scopes_.push_back({.begin = begin, .end = end, .loop = next_id_++});
  }

  void close_scope() {
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    Code& parent = scopes_.back().code;
    parent.push_back(
        {{.kind = Inst::Loop, .dtype = DType::I64, .src = {scope.begin, scope.end}}, scope.loop});
    parent.insert(parent.end(), std::make_move_iterator(scope.code.begin()),
                  std::make_move_iterator(scope.code.end()));
    add(top(), {.kind = Inst::EndLoop, .src = {scope.loop}});
    const int depth = static_cast<int>(scopes_.size());
    std::erase_if(values_, [&](const auto& entry) { return entry.second.depth >= depth; });
  }

  void open_loop(Ref range) {
    const int zero = integer(0).id;
    const Value size = value(range->src[0]);
    open_scope(zero, size.id);
    values_[range.get()] = {scopes_.back().loop, top(), 1};
  }

  Refs loops_of(Ref store, RangeKind kind) const {
    Refs loops;
    for (size_t i = 3; i < store->src.size(); ++i)
      if (kind_of(store->src[i]) == kind) loops.push_back(store->src[i]);
    return loops;
  }

  // The tasks of a nest are the iterations of all its Task loops together; a worker takes an equal, contiguous share.
  size_t open_task_loop() {
    Refs tasks = tile_ranges_of(nests_[0]);
    if (tasks.empty()) tasks = loops_of(nests_[0].stores[0], RangeKind::Task);
    if (nests_[0].is_local) return 0;
    Value total = integer(1);
    for (Ref r : tasks) total = alu(Op::Mul, DType::I64, {total, value(r->src[0])});
    const Value part{add(0, {.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 0}}), 0, 1};
    const Value parts{add(0, {.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 1}}), 0, 1};
    const auto share = [&](Value p) {
      return alu(Op::Div, DType::I64, {alu(Op::Mul, DType::I64, {total, p}), parts});
    };
    const Value begin = share(part), end = share(alu(Op::Add, DType::I64, {part, integer(1)}));
    open_scope(begin.id, end.id);
    Value rest{scopes_.back().loop, top(), 1};
    for (size_t i = tasks.size(); i-- > 0;) {
      const Value size = value(tasks[i]->src[0]);
      values_[tasks[i].get()] = i == 0 ? rest : alu(Op::Mod, DType::I64, {rest, size});
      if (i > 0) rest = alu(Op::Div, DType::I64, {rest, size});
    }
    return 1;
  }

  std::vector<Refs> groups_by_loops(const Refs& stores) const {
    std::vector<Refs> groups;
    for (Ref s : stores) {
      auto same = std::find_if(groups.begin(), groups.end(), [&](const Refs& g) {
        return loops_of(g[0], RangeKind::Loop) == loops_of(s, RangeKind::Loop);
      });
      if (same == groups.end())
        groups.push_back({s});
      else
        same->push_back(s);
    }
    return groups;
  }

  void emit_stores(const Refs& group) {
    const Refs loops = loops_of(group[0], RangeKind::Loop);
    for (Ref r : loops) open_loop(r);
    Refs stored;
    for (Ref s : group) stored.push_back(s->src[2]);
    compute_together(stored);
    std::vector<Value> values;
    for (Ref s : group) values.push_back(value(s->src[2]));
    for (size_t i = 0; i < group.size(); ++i) emit_store(group[i], values[i]);
    for (size_t i = 0; i < loops.size(); ++i) close_scope();
  }

  void emit_store(Ref store, Value v) {
    const Refs lanes = loops_of(store, RangeKind::Lane);
    Ref offset = store->src[1];
    Instruction out{.kind = Inst::Store, .dtype = store->src[2]->dtype, .lanes = 1};
    if (!lanes.empty()) {
      ENSURE(lanes.size() == 1 && stride(offset, lanes[0]) == size_of(out.dtype),
             "lanes of a store are not neighbours");
      offset = substitute(offset, {{lanes[0], constant(0)}});
      out.lanes = static_cast<int>(lanes[0]->src[0]->arg.i);
    } else {
      ENSURE(v.lanes == 1, "a vector is stored in one element");
    }
    out.src = {value(store->src[0]).id, value(offset).id, v.id};
    add(top(), std::move(out));
  }

  // --- values

  Value alu(Op op, DType dtype, const std::vector<Value>& src, Arg arg = {}) {
    Instruction out{.kind = Inst::Value, .op = op, .dtype = dtype, .arg = std::move(arg)};
    Value v{.depth = 0};
    for (const Value& s : src) {
      out.src.push_back(s.id);
      v.depth = std::max(v.depth, s.depth);
      v.lanes = std::max(v.lanes, s.lanes);
    }
    out.lanes = v.lanes;
    v.id = add(v.depth, std::move(out));
    return v;
  }

  Value integer(int64_t x) { return value(constant(x)); }
  Value number(double x, DType dtype) { return value(constant_f(x, dtype)); }

  Value value(Ref n) {
    if (auto it = values_.find(n.get()); it != values_.end()) return it->second;
    if (is_reduce(n->op)) {
      emit_reductions(n);
      return values_.at(n.get());
    }
    const Value v = compute(n);
    values_[n.get()] = v;
    return v;
  }

  // Values of equal structure, such as the copies that UPCAST makes, step by step side by side: what they share, an
  // unpacked word of weights say, is used by all of them while it is in a register.
  void compute_together(Refs nodes) {
    std::erase_if(nodes, [&](Ref n) { return values_.contains(n.get()); });
    if (nodes.size() > 1 && std::all_of(nodes.begin(), nodes.end(), [&](Ref n) {
          return is_elementwise(n->op) && n->op == nodes[0]->op;
        }))
      for (size_t i = 0; i < nodes[0]->src.size(); ++i) {
        Refs operands;
        for (Ref n : nodes) operands.push_back(n->src[i]);
        compute_together(std::move(operands));
      }
    for (Ref n : nodes) value(n);
  }

  Value compute(Ref n) {
    switch (n->op) {
      case Op::Const:
        return {add(0, {.kind = Inst::Value, .op = Op::Const, .dtype = n->dtype, .arg = n->arg}), 0,
                1};
      case Op::Var: return symbol(n->arg.name);
      case Op::Param: return {add(0, {.kind = Inst::Buffer, .arg = {.i = n->arg.i}}), 0, 1};
      case Op::Local: return local(n);
      case Op::Range: return lane_index(n);
      case Op::Load: return load(n);
      case Op::LaneReduce: return lane_reduce(n);
      case Op::TopKLane: value(n->src[0]); return topk_items_.at({n->src[0].get(), n->arg.i});
      default: break;
    }
    ENSURE(is_elementwise(n->op), std::string("cannot linearize ") + std::string(name_of(n->op)));
    std::vector<Value> src;
    for (Ref s : n->src) src.push_back(value(s));
    return alu(n->op, n->dtype, src, n->arg);
  }

  Value symbol(const std::string& name) {
    auto it = std::find(symbols_.begin(), symbols_.end(), name);
    const int64_t position = it - symbols_.begin();
    if (it == symbols_.end()) symbols_.push_back(name);
    return {add(0, {.kind = Inst::Symbol, .dtype = DType::I64, .arg = {.i = position}}), 0, 1};
  }

  Value local(Ref n) {
    if (!scratch_.contains(n->arg.i)) {
      scratch_[n->arg.i] = scratch_bytes_;
      scratch_bytes_ += (n->arg.list[0] + 63) / 64 * 64 + 64;
    }
    return {add(0, {.kind = Inst::Scratch, .arg = {.i = scratch_[n->arg.i]}}), 0, 1};
  }

  Value lane_index(Ref range) {
    ENSURE(kind_of(range) == RangeKind::Lane, "a range without a loop around it");
    const int lanes = facts_.lanes(range);
    return {add(0, {.kind = Inst::LaneIndex, .dtype = DType::I64, .lanes = lanes}), 0, lanes};
  }

  Value load(Ref n) {
    Ref offset = n->src[1];
    int lanes = facts_.lanes(offset);
    if (lanes > 1)
      for (const Node* r : facts_.free_ranges(offset)) {
        const Ref range(r);
        if (kind_of(range) != RangeKind::Lane || stride(offset, range) != size_of(n->dtype))
          continue;
        offset = substitute(offset, {{range, constant(0)}});
        break;
      }
    const Value pointer = value(n->src[0]), at = value(offset);
    // What a nest of the tile has written is not there before.
    const int written = written_.contains(n->src[0].get()) ? 1 : 0;
    const int depth = std::max({pointer.depth, at.depth, written});
    const bool is_vector = lanes > 1 && at.lanes == 1 && is_from_memory(n);
    if (is_vector && is_tile() && depth > 0) prefetch(pointer, at);
    Instruction out{
        .kind = Inst::Load, .dtype = n->dtype, .lanes = lanes, .src = {pointer.id, at.id}};
    out.arg.i = is_vector && !is_tile() && is_word(n);
    return {add(depth, std::move(out)), depth, lanes};
  }

  // Weights lie in the order in which loops use them (see WeightLayout), and prefetchers see by themselves that lines follow
  // each other, if loads stay in this order: hints would cost a tenth to a third. A tile computes for long between reads,
  // and prefetchers give up: it asks ahead of time.
  bool is_from_memory(Ref load) const {
    return load->src[0]->op == Op::Param && load->src[1]->max >= kStreamedBytes;
  }
  bool is_tile() const { return nests_.size() > 1; }
  static bool is_word(Ref load) { return is_int(load->dtype) && size_of(load->dtype) == 4; }

  void prefetch(Value pointer, Value at) {
    const Value ahead = alu(Op::Add, DType::I64, {at, integer(kPrefetchBytes)});
    add(std::max(pointer.depth, ahead.depth),
        {.kind = Inst::Prefetch, .src = {pointer.id, ahead.id}});
  }

  Value lane_reduce(Ref n) {
    const Value x = value(n->src[0]);
    const Op op = static_cast<Op>(n->arg.i);
    if (x.lanes > 1)
      return {add(x.depth, {.kind = Inst::LaneReduce, .op = op, .dtype = n->dtype, .src = {x.id}}),
              x.depth, 1};
    if (op == Op::ReduceMax) return x;
    const int64_t lanes = n->src[1]->src[0]->arg.i;
    return alu(Op::Mul, n->dtype,
               {x, is_float(n->dtype) ? number(static_cast<double>(lanes), n->dtype)
                                      : value(constant(lanes, n->dtype))});
  }

  // --- reductions

  int depth_of(const RangeSet& ranges) const {
    int depth = 0;
    for (const Node* r : ranges)
      if (auto it = values_.find(r); it != values_.end() && kind_of(Ref(r)) != RangeKind::Lane)
        depth = std::max(depth, it->second.depth);
    return depth;
  }

  // Emits the loop of a reduction, together with those of its siblings that live at the same depth, just inside the
  // scope of that depth.
  void emit_reductions(Ref first) {
    const int depth = depth_of(facts_.free_ranges(first));
    Refs group;
    for (Ref n : siblings_.at({bound_ranges(first), facts_.height(first)}))
      if (!values_.contains(n.get()) && all_known(facts_.free_ranges(n)) &&
          depth_of(facts_.free_ranges(n)) == depth)
        group.push_back(n);

    // The loops opened further in are set aside, with the values that live in them.
    std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + depth + 1),
                             std::make_move_iterator(scopes_.end()));
    scopes_.resize(depth + 1);
    std::vector<std::pair<const Node*, Value>> inner_values;
    std::erase_if(values_, [&](const auto& entry) {
      if (entry.second.depth <= depth) return false;
      inner_values.push_back(entry);
      return true;
    });
    emit_loop_of(group, depth);
    scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()),
                   std::make_move_iterator(inner.end()));
    values_.insert(inner_values.begin(), inner_values.end());
  }

  bool all_known(const RangeSet& ranges) const {
    return std::all_of(ranges.begin(), ranges.end(), [&](const Node* r) {
      return kind_of(Ref(r)) == RangeKind::Lane || values_.contains(r);
    });
  }

  struct Accumulator {
    int id;
    Value old, next;
  };

  int new_accumulator(int depth, Value initial, DType dtype, int lanes) {
    return add(depth, {.kind = Inst::Acc, .dtype = dtype, .lanes = lanes, .src = {initial.id}});
  }

  Value get(int accumulator, DType dtype, int lanes) {
    return {
        add(top(), {.kind = Inst::AccGet, .dtype = dtype, .lanes = lanes, .src = {accumulator}}),
        top(), lanes};
  }

  void set(int accumulator, Value v, DType dtype, int lanes) {
    add(top(), {.kind = Inst::AccSet, .dtype = dtype, .lanes = lanes, .src = {accumulator, v.id}});
  }

  Value identity(Op op, DType dtype) {
    if (is_float(dtype)) return number(op == Op::ReduceMax ? kLowest : 0, dtype);
    return value(constant(op == Op::ReduceMax ? lowest_integer(dtype) : 0, dtype));
  }

  Ref greatest_score(const Refs& terms) {
    Ref score = terms[0];
    for (size_t i = 2; i < terms.size(); i += 2) score = binary(Op::Max, score, terms[i]);
    return score;
  }

  void emit_loop_of(const Refs& group, int depth) {
    // Registers first: their loop comes after them.
    struct Slot {
      Op op;
      DType dtype;
      int lanes, id;
      Value next;
    };
    std::vector<Slot> slots;
    std::map<const Node*, size_t> max_slot;      // by the score whose maximum it is
    std::vector<std::pair<Ref, size_t>> scores;  // the same, in order
    std::map<const Node*, size_t> sum_slot;      // by reduction
    const auto new_slot = [&](Op op, DType dtype, int lanes, Value initial) {
      slots.push_back({op, dtype, lanes, new_accumulator(depth, initial, dtype, lanes), {}});
      return slots.size() - 1;
    };
    const auto slot_of_max = [&](Ref score) {
      if (auto it = max_slot.find(score.get()); it != max_slot.end()) return it->second;
      const size_t slot = new_slot(Op::ReduceMax, score->dtype, facts_.lanes(score),
                                   identity(Op::ReduceMax, score->dtype));
      scores.emplace_back(score, slot);
      return max_slot[score.get()] = slot;
    };
    for (Ref n : group) {
      const Refs terms = terms_of(n);
      if (n->op == Op::ReduceMax) slot_of_max(terms[0]);
      if (n->op == Op::ReduceSum)
        sum_slot[n.get()] =
            new_slot(n->op, n->dtype, facts_.lanes(terms[0]), identity(n->op, n->dtype));
      if (n->op == Op::SoftmaxSum) {
        slot_of_max(greatest_score(terms));
        sum_slot[n.get()] = new_slot(n->op, n->dtype, facts_.lanes(n), number(0, n->dtype));
      }
      if (n->op == Op::TopK)
        for (int64_t j = 0; j < n->arg.i; ++j) {
          const size_t v = new_slot(n->op, terms[0]->dtype, 1, number(kLowest, terms[0]->dtype));
          new_slot(n->op, DType::I32, 1, value(constant(j, DType::I32)));
          if (j == 0) sum_slot[n.get()] = v;
        }
    }

    const Refs ranges = bound_ranges(group[0]);
    for (Ref r : ranges) open_loop(r);
    std::vector<Value> old;
    for (const Slot& s : slots) old.push_back(get(s.id, s.dtype, s.lanes));
    for (const auto& [score, i] : scores)
      slots[i].next = alu(Op::Max, slots[i].dtype, {old[i], value(score)});
    Refs summed;
    for (Ref n : group)
      if (n->op == Op::ReduceSum) summed.push_back(terms_of(n)[0]);
    compute_together(summed);
    for (Ref n : group) {
      const Refs terms = terms_of(n);
      if (n->op == Op::ReduceSum) {
        Slot& s = slots[sum_slot[n.get()]];
        s.next = sum_of(old[sum_slot[n.get()]], terms[0], s.dtype);
      } else if (n->op == Op::SoftmaxSum) {
        const size_t i = sum_slot[n.get()], m = max_slot[greatest_score(terms).get()];
        slots[i].next = softmax_step(n, terms, old[i], old[m], slots[m].next);
      } else if (n->op == Op::TopK) {
        std::vector<Value> next = topk_step(terms[0], value(cast(flat_index(ranges), DType::I32)),
                                            n->arg.i, &old[sum_slot[n.get()]]);
        for (size_t j = 0; j < next.size(); ++j) slots[sum_slot[n.get()] + j].next = next[j];
      }
    }
    for (const Slot& s : slots) set(s.id, s.next, s.dtype, s.lanes);
    for (size_t i = 0; i < ranges.size(); ++i) close_scope();
    rescale_.clear();

    for (Ref n : group) {
      const auto result = [&](size_t i) {
        return get(slots[i].id, slots[i].dtype, slots[i].lanes);
      };
      if (n->op == Op::TopK)
        for (int64_t j = 0; j < n->arg.i; ++j)
          topk_items_[{n.get(), j}] = result(sum_slot[n.get()] + 2 * j + 1);
      values_[n.get()] = n->op == Op::TopK        ? Value{-1, depth, 1}
                         : n->op == Op::ReduceMax ? result(max_slot[terms_of(n)[0].get()])
                                                  : result(sum_slot[n.get()]);
    }
  }

  Value sum_of(Value sum, Ref term, DType dtype) {
    if (term->op == Op::Dot4 && is_const(term->src[0], 0))
      return alu(Op::Dot4, dtype, {sum, value(term->src[1]), value(term->src[2])}, term->arg);
    return alu(Op::Add, dtype, {sum, value(term)});
  }

  Value exp_of_difference(Value x, Value y, DType dtype) {
    const auto key = std::make_pair(x.id, y.id);
    if (auto it = rescale_.find(key); it != rescale_.end()) return it->second;
    const Value scaled = alu(Op::Mul, dtype, {alu(Op::Sub, dtype, {x, y}), number(kLog2E, dtype)});
    return rescale_[key] = alu(Op::Exp2, dtype, {scaled});
  }

  // sum' = sum * exp(max - max') + exp(score - max') * value, for each (score, value).
  Value softmax_step(Ref n, const Refs& terms, Value sum, Value old_max, Value new_max) {
    Value next = alu(Op::Mul, n->dtype, {sum, exp_of_difference(old_max, new_max, n->dtype)});
    for (size_t i = 0; i < terms.size(); i += 2) {
      const Value weight = exp_of_difference(value(terms[i]), new_max, n->dtype);
      const Value term = is_const(terms[i + 1]) && terms[i + 1]->arg.f == 1
                             ? weight
                             : alu(Op::Mul, n->dtype, {weight, value(terms[i + 1])});
      next = alu(Op::Add, n->dtype, {next, term});
    }
    return next;
  }

  // The index that a reduction's ranges stand for together, after some were split.
  static Ref flat_index(const Refs& ranges) {
    Ref index = ranges[0];
    for (size_t i = 1; i < ranges.size(); ++i) index = index * ranges[i]->src[0] + ranges[i];
    return index;
  }

  // One insertion into k (value, index) pairs in descending order; a later equal value goes behind.
  std::vector<Value> topk_step(Ref term, Value index, int64_t k, const Value* old) {
    const Value x = value(term);
    std::vector<Value> next;
    Value above{};
    for (int64_t j = 0; j < k; ++j) {
      const Value better = alu(Op::Lt, DType::Bool, {old[2 * j], x});
      for (int part = 0; part < 2; ++part) {
        const DType dtype = part ? DType::I32 : term->dtype;
        const Value fresh = part ? index : x;
        const Value moved =
            j == 0 ? fresh : alu(Op::Where, dtype, {above, old[2 * (j - 1) + part], fresh});
        next.push_back(alu(Op::Where, dtype, {better, moved, old[2 * j + part]}));
      }
      above = better;
    }
    return next;
  }

  std::span<const ExpandedNest> nests_;
  std::set<const Node*> written_;  // buffers that nests of a tile pass on
  std::vector<std::string>& symbols_;
  std::map<int64_t, int64_t>& scratch_;  // byte offset by Local number
  int64_t& scratch_bytes_;
  int& next_id_;
  Analysis facts_;
  std::set<const Node*> reductions_;
  std::map<GroupKey, Refs> siblings_;
  std::vector<Scope> scopes_;
  std::unordered_map<const Node*, Value> values_;
  std::map<std::pair<const Node*, int64_t>, Value> topk_items_;
  std::map<std::pair<int, int>, Value> rescale_;
};

}  // namespace

Program linearize(std::span<const ExpandedNest> nests, std::string name,
                  std::vector<std::string> symbols) {
  Program program{.name = std::move(name), .symbols = std::move(symbols)};
  std::map<int64_t, int64_t> scratch;
  Code code;
  int next_id = 0;
  while (!nests.empty()) {
    const auto tile = nests.first(size_of_tile(nests));
    nests = nests.subspan(tile.size());
    Code part = NestEmitter(tile, program.symbols, scratch, program.scratch_bytes, next_id).run();
    code.insert(code.end(), std::make_move_iterator(part.begin()),
                std::make_move_iterator(part.end()));
  }
  std::vector<int> position(next_id, -1);
  for (size_t i = 0; i < code.size(); ++i) position[code[i].id] = static_cast<int>(i);
  for (Emitted& e : code) {
    for (int& s : e.instruction.src) s = position[s];
    if (e.instruction.kind == Inst::Buffer)
      program.buffers = std::max(program.buffers, static_cast<int>(e.instruction.arg.i) + 1);
    program.code.push_back(std::move(e.instruction));
  }
  return program;
}

}  // namespace smelt
