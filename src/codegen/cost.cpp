#include "codegen/cost.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/ensure.h"
#include "codegen/footprint.h"
#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/schedule.h"

namespace smelt {
namespace {

constexpr double kSoftmaxOps = 4;  // a term of an online softmax: max, exp, multiply, add

Ref with_symbols(Ref tree, const SymbolValues& symbols) {
  Replacements values;
  for (Ref n : toposort(tree)) {
    if (n->op != Op::Var) continue;
    const auto given = symbols.find(n->arg.name);
    values[n] = constant(given != symbols.end() ? given->second : n->max);
  }
  return values.empty() ? tree : substitute(tree, values);
}

Ref with_contents(Ref tree, const BufferContents& contents) {
  Replacements values;
  for (Ref n : toposort(tree)) {
    if (n->op != Op::Load || LoadView(n).buffer->op != Op::Param || !is_int(n->dtype)) continue;
    if (const auto known = contents.find(number_of_buffer(LoadView(n).buffer)); known != contents.end())
      values[n] = constant(known->second, n->dtype);
  }
  return values.empty() ? tree : substitute(tree, values);
}

// How often a value is computed: the ranges that it depends on, those of finished reductions left out.
class Multiplicity {
 public:
  using Ranges = std::vector<Ref>;

  const Ranges& ranges(Ref n) {
    if (const auto it = memo_.find(n.get()); it != memo_.end()) return it->second;
    Ranges out;
    if (n->op == Op::Range) {
      out = {n};
    } else {
      for (Ref s : n->src)
        for (Ref r : Ranges(ranges(s)))
          if (!contains(out, r)) out.push_back(r);
      if (is_reduce(n->op)) std::erase_if(out, [&](Ref r) { return contains(ReduceView(n).ranges, r); });
    }
    return memo_[n.get()] = std::move(out);
  }

  double of(Ref n) {
    double times = 1;
    for (Ref r : ranges(n)) times *= static_cast<double>(RangeView(r).most());
    return times;
  }

  // Of the terms of a reduction.
  double terms(Ref reduce) {
    double times = of(reduce);
    for (Ref r : own_ranges(reduce)) times *= static_cast<double>(RangeView(r).most());
    return times;
  }

 private:
  std::unordered_map<const Node*, Ranges> memo_;
};

// Nodes whose values are data: what is stored and what that is computed from, without addresses.
void collect_data(Ref n, std::unordered_set<const Node*>& seen, Refs& out) {
  if (n->op == Op::Range || !seen.insert(n.get()).second) return;
  if (n->op != Op::Load)
    for (Ref s : n->src) collect_data(s, seen, out);
  out.push_back(n);
}

Refs data_of(const Refs& stores) {
  std::unordered_set<const Node*> seen;
  Refs out;
  for (Ref s : stores) collect_data(StoreView(s).value, seen, out);
  return out;
}

bool is_free(Op op) { return op == Op::Bitcast || !(is_elementwise(op) || is_reduce(op)); }

bool is_float_op(Ref n) {
  if (n->op == Op::Cast) return false;
  if (n->op == Op::TopK) return is_float(ReduceView(n).values[0]->dtype);
  return is_float(n->op == Op::Lt || n->op == Op::Eq ? BinaryView(n).x->dtype : n->dtype);
}

bool is_from_byte(Ref n) { return n->op == Op::Cast && size_of(n->src[0]->dtype) == 1; }

// A sum of products of bytes, whatever instruction makes it later.
bool is_byte_dot(Ref n) {
  if (n->op != Op::ReduceSum || n->dtype != DType::I32) return false;
  const Ref term = ReduceView(n).values[0];
  return term->op == Op::Mul && is_from_byte(BinaryView(term).x) && is_from_byte(BinaryView(term).y);
}

void add_operations(const Refs& stores, KernelCost& cost) {
  Multiplicity multiplicity;
  for (Ref n : data_of(stores)) {
    if (is_free(n->op)) continue;
    double ops = is_reduce(n->op) ? multiplicity.terms(n) : multiplicity.of(n);
    if (is_byte_dot(n)) cost.byte_ops += 2 * ops;
    if (n->op == Op::SoftmaxSum) ops *= kSoftmaxOps;
    (is_float_op(n) ? cost.float_ops : cost.int_ops) += ops;
  }
}

using Patterns = std::map<int64_t, std::vector<Pattern>>;  // by Param number

void add_patterns(const Refs& stores, Patterns& reads, Patterns& writes) {
  std::unordered_set<const Node*> seen;
  for (Ref store : stores) {
    for (Ref n : toposort(store)) {
      if (n->op != Op::Load || LoadView(n).buffer->op != Op::Param || !seen.insert(n.get()).second) continue;
      const auto [buffer, offset] = LoadView(n);
      reads[number_of_buffer(buffer)].push_back(pattern_of(offset, size_of(n->dtype)));
    }
    const StoreView s(store);
    if (s.buffer->op == Op::Param)
      writes[number_of_buffer(s.buffer)].push_back(pattern_of(s.offset, size_of(s.value->dtype)));
  }
}

// A nest without masks and with natural axes, so that addresses are sums of ranges.
Refs plain_stores(Ref nest) { return split_ranges(bound_masks(stores_of(nest))); }

double operations_of(const Refs& stores) {
  KernelCost cost;
  add_operations(stores, cost);
  return cost.operations();
}

std::string size_text(Ref size) {
  if (const auto n = const_int(size)) return std::to_string(*n);
  if (size->op == Op::Var) return size->arg.name;
  if (size->op == Op::Mul) return size_text(BinaryView(size).x) + "*" + size_text(BinaryView(size).y);
  return "n";
}

// The product of the sizes of ranges: constants multiplied, others written out.
std::string sizes_text(const Refs& ranges) {
  int64_t product = 1;
  std::string rest;
  for (Ref r : ranges) {
    const Ref size = RangeView(r).size;
    if (const auto n = const_int(size))
      product *= *n;
    else
      rest += "*" + size_text(size);
  }
  if (product == 1 && !rest.empty()) return rest.substr(1);
  return std::to_string(product) + rest;
}

std::string reduction_in_words(Ref reduce, Multiplicity& multiplicity) {
  const Refs over = own_ranges(reduce);
  const Refs& outer = multiplicity.ranges(reduce);
  const std::string times = outer.empty() ? "" : sizes_text(outer) + " ";
  switch (reduce->op) {
    case Op::ReduceSum: return times + (outer.empty() ? "sum of " : "sums of ") + sizes_text(over);
    case Op::ReduceMax: return times + "max of " + sizes_text(over);
    case Op::SoftmaxSum: return times + "softmax of " + sizes_text(over);
    default: return times + "top " + std::to_string(top_count(reduce)) + " of " + sizes_text(over);
  }
}

}  // namespace

KernelCost cost_of(Ref tree, const SymbolValues& symbols, const BufferContents& contents) {
  KernelCost cost;
  Patterns reads, writes;
  const Ref bound = with_symbols(tree, symbols);
  for (Ref nest : bound->src) {
    // Masks become bounds while they are as the model wrote them; then what bounds them is known.
    const Refs stores = with_contents(make(Op::Sink, DType::Void, plain_stores(nest)), contents)->src;
    add_patterns(stores, reads, writes);
    add_operations(hoist_factors(stores), cost);
  }
  int64_t buffers = 0;
  for (const Patterns* all : {&reads, &writes})
    if (!all->empty()) buffers = std::max(buffers, all->rbegin()->first + 1);
  cost.buffers.resize(static_cast<size_t>(buffers));
  for (auto& [buffer, patterns] : reads) {
    BufferCost& b = cost.buffers[static_cast<size_t>(buffer)];
    b.gathered = std::any_of(patterns.begin(), patterns.end(), [](const Pattern& p) { return p.gathered; });
    cost.read += b.read = distinct_bytes(std::move(patterns));
  }
  for (auto& [buffer, patterns] : writes)
    cost.written += cost.buffers[static_cast<size_t>(buffer)].written = distinct_bytes(std::move(patterns));
  return cost;
}

KernelShape shape_of(Ref tree, const KernelOpts& opts, const Machine& machine, const SymbolValues& symbols) {
  ENSURE(opts.size() == tree->src.size(), "options for another number of nests");
  KernelShape shape;
  double most = -1, all = 0, scalar = 0;
  for (size_t i = 0; i < opts.size(); ++i) {
    const Refs stores = apply_opts(prepare_nest(tree->src[i], machine), opts[i], lane_rules(machine));
    const Ref bound = with_symbols(make(Op::Sink, DType::Void, stores), symbols);
    double tasks = 1;
    bool lanes = false;
    std::unordered_set<const Node*> seen;
    for (Ref store : bound->src)
      for (Ref r : ranges_of(store)) {
        if (!seen.insert(r.get()).second) continue;
        if (kind_of(r) == RangeKind::Task || kind_of(r) == RangeKind::Tile)
          tasks *= static_cast<double>(RangeView(r).most());
        lanes |= kind_of(r) == RangeKind::Lane;
      }
    const double operations = operations_of(bound->src);
    all += operations;
    if (!lanes) scalar += operations;
    if (is_local_nest(tree->src[i]) || operations <= most) continue;
    most = operations;
    shape.tasks = static_cast<int64_t>(tasks);
  }
  shape.scalar_share = all > 0 ? scalar / all : 0;
  return shape;
}

std::string operations_in_words(Ref tree) {
  constexpr size_t kMostReductions = 4;
  struct Reduction {
    double terms;
    std::string words;
  };
  std::vector<Reduction> reductions;
  bool has_norm = false, has_exp = false;
  for (Ref nest : tree->src) {
    Multiplicity multiplicity;
    for (Ref n : data_of(stores_of(nest))) {
      if (is_reduce(n->op)) reductions.push_back({multiplicity.terms(n), reduction_in_words(n, multiplicity)});
      has_norm |= n->op == Op::Sqrt;
      has_exp |= n->op == Op::Exp2;
    }
  }
  std::stable_sort(reductions.begin(), reductions.end(),
                   [](const Reduction& a, const Reduction& b) { return a.terms > b.terms; });
  std::vector<std::string> words;
  size_t left_out = 0;
  for (const Reduction& r : reductions) {
    if (std::find(words.begin(), words.end(), r.words) != words.end()) continue;
    if (words.size() < kMostReductions || r.words.find("top ") != std::string::npos)
      words.push_back(r.words);
    else
      ++left_out;
  }
  if (left_out > 0) words.push_back(std::to_string(left_out) + " smaller");
  if (has_norm) words.push_back("rms norm");
  if (has_exp) words.push_back("exp");
  if (words.empty()) words.push_back("elementwise");
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

}  // namespace smelt
