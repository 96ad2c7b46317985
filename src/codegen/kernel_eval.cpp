#include "codegen/kernel_eval.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "base/ensure.h"
#include "graph/constants.h"
#include "graph/eval.h"
#include "graph/matrix_sum.h"
#include "graph/operands.h"
#include "graph/text.h"
#include "graph/views.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

DType working(DType dtype) { return dtype == DType::F32 ? DType::F64 : dtype; }

// The node with f32 taken as f64, for apply_op(). A bitcast keeps its types: there their sizes
// matter.
Node in_double(const Node& node) {
  if (node.op == Op::Bitcast) return node;
  Node out{.op = node.op, .dtype = working(node.dtype), .arg = node.arg};
  for (Ref s : node.src) {
    const DType dtype = working(s->dtype);
    out.src.push_back(is_float(dtype) ? constant_f(0, dtype) : constant(0, dtype));
  }
  return out;
}

// What a reduction does with two of its terms.
Node combination(Op reduce, DType dtype) {
  const Ref term = is_float(dtype) ? constant_f(0, dtype) : constant(0, dtype);
  return {.op = reduce == Op::ReduceMax ? Op::Max : Op::Add, .dtype = dtype, .src = {term, term}};
}

Scalar read(std::span<const std::byte> memory, int64_t at, DType dtype) {
  uint64_t bits = 0;
  const std::byte* from = memory.data() + at;
  switch (size_of(dtype)) {  // a copy of known size is one load
    case 1: std::memcpy(&bits, from, 1); break;
    case 2: std::memcpy(&bits, from, 2); break;
    case 4: std::memcpy(&bits, from, 4); break;
    default: std::memcpy(&bits, from, 8);
  }
  return from_bits(bits, dtype);
}

double precision_loss(DType dtype) { return dtype == DType::F16 ? 0x1p-13 : dtype == DType::BF16 ? 0x1p-16 : 1; }

double distance_of_integers(const KernelElement& expected, int64_t got, double scale, bool rounded) {
  const int64_t steps = std::abs(got - wrap(expected.value.i, expected.dtype));
  if (steps == 0) return 0;
  if (!rounded) return std::numeric_limits<double>::infinity();
  return steps == 1 && size_of(expected.dtype) == 1 ? 0 : static_cast<double>(steps) / scale;
}

double distance(const KernelElement& expected, Scalar got, double scale, bool rounded) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (!is_float(expected.dtype)) return distance_of_integers(expected, got.i, scale, rounded);
  const double e = expected.value.f;
  if (got.f == e || (got.f < kMaskedScore && e < kMaskedScore) || (std::isnan(got.f) && std::isnan(e))) return 0;
  const double d = std::abs(got.f - e) / scale * precision_loss(expected.dtype);
  return std::isnan(d) ? kInfinite : d;
}

// One node of a nest.
struct Cell {
  Ref node;
  std::vector<int> src;
  Node op;                          // what is applied to the sources, or to the terms of a reduction: in_double()
  int operand = -1;                 // a load's offset, a range's size, the top-k of one of its entries
  std::vector<int> values, ranges;  // of a reduction
  std::vector<int> depends;         // ranges that it depends on and does not run over itself
  std::vector<int> dependents;      // of a range: the cells that have it among those
  std::vector<int64_t> best;        // of a TopK: indices
};

// What is done for most cells: apart from these, as there is little of it.
struct Step {
  ScalarFunction function = nullptr;  // of Cell::op
  int src[3] = {};                    // of an elementwise node
  uint8_t count = 0;
  Op kind;
};

// Of a value. What an undefined operation made may exist as long as nothing depends on it.
enum class State : uint8_t { Stale, Undefined, Defined };

// Values are stale until they are asked for, and again when the index of a loop that they depend on changes. They lie
// apart from the cells, side by side: each is written and forgotten many times.
class NestEvaluator {
 public:
  NestEvaluator(const KernelEvalRequest& request, std::map<int64_t, std::vector<std::byte>>& locals)
      : request_(request), locals_(locals) {}

  // The trip count of a loop around nests. `fixed`: the loops around that one, and their indices.
  int64_t length_of(Ref range, const std::map<const Node*, int64_t>& fixed) {
    const int cell = cell_of(range);
    for (const auto& [r, at] : fixed) move(cell_of(Ref(r)), at);
    return size_of_range(cell);
  }

  // Whether KernelEvalRequest::wants() wants an element of these stores.
  bool has_wanted(const Refs& stores, const std::map<const Node*, int64_t>& fixed) {
    bool has = false;
    for (Ref store : stores) {
      if (StoreView(store).buffer->op == Op::Local) continue;
      for (Ref s : store->src) cell_of(s);
      for (const auto& [range, at] : fixed) move(cell_of(Ref(range)), at);
      const StoreCells cells = cells_of(store);
      for_each(own_cells(store, fixed), [&] { has = has || is_wanted(cells); });
    }
    return has;
  }

  // `fixed`: the loops around the nest, and their indices; `wanted`: see elements_per_store.
  Status run(const Refs& stores, const std::map<const Node*, int64_t>& fixed, int64_t wanted,
             std::vector<KernelElement>& out) {
    for (Ref store : stores) {
      for (Ref s : store->src) cell_of(s);
      for (const auto& [range, at] : fixed) move(cell_of(Ref(range)), at);
      run_store(store, fixed, wanted, out);
      if (!problem_.empty()) return Error{problem_};
    }
    return {};
  }

 private:
  // Makes the cells of all that the node is made of, too: while values are computed, there are no new ones.
  int cell_of(Ref n) {
    if (auto it = index_.find(n.get()); it != index_.end()) return it->second;
    Cell cell{.node = n};
    for (Ref s : n->src) cell.src.push_back(cell_of(s));
    for (int s : cell.src) merge(cell.depends, cells_[s].depends);
    if (n->op == Op::Load) cell.operand = cell_of(LoadView(n).offset);
    if (n->op == Op::Range) cell.operand = cell_of(RangeView(n).size);
    if (n->op == Op::TopKLane) cell.operand = cell_of(topk_of(n));
    if (is_elementwise(n->op)) cell.op = in_double(*n);
    if (is_reduce(n->op) || n->op == Op::LaneReduce) {
      const size_t values = is_reduce(n->op) ? ReduceView(n).values.size() : 1;
      cell.op = combination(n->op == Op::LaneReduce ? LaneReduceView(n).reduce : n->op, working(n->dtype));
      cell.values.assign(cell.src.begin(), cell.src.begin() + values);
      cell.ranges.assign(cell.src.begin() + values, cell.src.end());
      std::erase_if(cell.depends,
                    [&](int r) { return std::find(cell.ranges.begin(), cell.ranges.end(), r) != cell.ranges.end(); });
    }
    Step step{.kind = n->op};
    if (!cell.op.src.empty()) step.function = scalar_function(cell.op);
    if (is_elementwise(n->op)) {
      step.count = static_cast<uint8_t>(cell.src.size());
      std::copy(cell.src.begin(), cell.src.end(), step.src);
    }
    steps_.push_back(step);
    const int id = static_cast<int>(cells_.size());
    if (n->op == Op::Range) cell.depends = {id};
    for (int r : cell.depends)
      if (r != id) cells_[r].dependents.push_back(id);
    cells_.push_back(std::move(cell));
    values_.push_back(n->op == Op::Var     ? Scalar{.i = request_.variables.at(n->arg.name)}
                      : n->op == Op::Const ? *scalar_of(n)
                                           : Scalar{});
    const bool is_known = n->op == Op::Range || n->op == Op::Var || n->op == Op::Const;
    states_.push_back(is_known ? State::Defined : State::Stale);
    index_[n.get()] = id;
    return id;
  }

  static void merge(std::vector<int>& into, const std::vector<int>& more) {
    for (int x : more)
      if (std::find(into.begin(), into.end(), x) == into.end()) into.push_back(x);
  }

  // --- loops

  void move(int range, int64_t to) {
    if (values_[range].i == to) return;
    values_[range].i = to;
    for (int c : cells_[range].dependents) states_[c] = State::Stale;
  }

  int64_t size_of_range(int range) { return value(cells_[range].operand).i; }

  // Calls f for every choice of values of the ranges, the last one fastest.
  template <class F>
  void for_each(const std::vector<int>& ranges, const F& f, size_t first = 0) {
    if (!problem_.empty()) return;
    if (first == ranges.size()) return f();
    const int64_t size = size_of_range(ranges[first]);
    for (int64_t i = 0; i < size; ++i) {
      move(ranges[first], i);
      for_each(ranges, f, first + 1);
    }
  }

  std::vector<int> own_cells(Ref store, const std::map<const Node*, int64_t>& fixed) {
    std::vector<int> ranges;
    for (Ref r : StoreView(store).ranges)
      if (!fixed.contains(r.get())) ranges.push_back(cell_of(r));
    return ranges;
  }

  struct StoreCells {
    StoreView view;
    int offset, value;
  };
  StoreCells cells_of(Ref store) {
    const StoreView view(store);
    return {view, cell_of(view.offset), cell_of(view.value)};
  }

  bool is_wanted(const StoreCells& store) {
    return is_defined(store.offset) && request_.wants(number_of_buffer(store.view.buffer), value(store.offset).i);
  }

  void run_store(Ref store, const std::map<const Node*, int64_t>& fixed, int64_t most,
                 std::vector<KernelElement>& out) {
    const StoreCells cells = cells_of(store);
    const std::vector<int> ranges = own_cells(store, fixed);
    const bool local = cells.view.buffer->op == Op::Local;
    int64_t count = 1;
    for (int r : ranges) count *= size_of_range(r);
    const int64_t wanted = local ? count : std::min(count, most);
    for (int64_t k = 0; k < wanted && problem_.empty(); ++k) {
      // Evenly from the first to the last, whatever the count.
      int64_t rest =
          wanted == count
              ? k
              : static_cast<int64_t>(static_cast<__int128>(count - 1) * k / std::max<int64_t>(wanted - 1, 1));
      for (size_t i = ranges.size(); i-- > 0;) {
        const int64_t size = size_of_range(ranges[i]);
        move(ranges[i], rest % size);
        rest /= size;
      }
      store_element(cells, local, out);
    }
  }

  void store_element(const StoreCells& cells, bool local, std::vector<KernelElement>& out) {
    const StoreView& view = cells.view;
    if (!local && request_.wants && !is_wanted(cells)) return;
    const bool has_offset = is_defined(cells.offset), has_value = is_defined(cells.value);
    if (!problem_.empty()) return;
    if (!has_offset || !has_value) return fail(Op::Store, view.offset, "an undefined value is stored");
    const KernelElement element{number_of_buffer(view.buffer), value(cells.offset).i, view.value->dtype,
                                value(cells.value)};
    if (!local) {
      out.push_back(element);
      return;
    }
    std::vector<std::byte>& memory = locals_[element.buffer];
    memory.resize(static_cast<size_t>(local_bytes(view.buffer)));
    const auto size = static_cast<size_t>(size_of(element.dtype)), at = static_cast<size_t>(element.offset);
    if (element.offset < 0 || at + size > memory.size())
      return fail(Op::Store, view.offset, "byte " + std::to_string(element.offset) + " is outside of its local buffer");
    const uint64_t bits = to_bits(element.value, element.dtype);
    std::memcpy(memory.data() + at, &bits, size);
  }

  // --- values

  // At an access to memory.
  void fail(Op op, Ref offset, const std::string& what) {
    if (problem_.empty())
      problem_ = "[kernel eval] " + std::string(name_of(op)) + " at " + to_infix(offset) + ": " + what;
  }

  bool is_defined(int id) {
    if (states_[id] == State::Stale) states_[id] = compute(id) ? State::Defined : State::Undefined;
    return states_[id] == State::Defined;
  }

  // Whatever it is, where it is not defined.
  const Scalar& value(int id) {
    is_defined(id);
    return values_[id];
  }

  const Scalar& value(Ref n) { return value(cell_of(n)); }

  // Leaves the value in values_; false if it is not defined.
  bool compute(int id) {
    switch (steps_[id].kind) {
      case Op::Load: return load(id);
      case Op::ReduceSum:
      case Op::ReduceMax:
      case Op::LaneReduce: return reduce(id);
      case Op::SoftmaxSum: return softmax_sum(id);
      case Op::TopK: return top_k(id);
      case Op::MatrixItem: return matrix_item(id);
      case Op::MatrixDot: return true;  // its items compute what they want of it
      case Op::TopKLane: {
        const Cell& cell = cells_[id];
        value(cell.operand);
        values_[id] = {.i = cells_[cell.operand].best[static_cast<size_t>(top_place(cell.node))]};
        return true;
      }
      case Op::Where: return choose(id);
      default: return apply(id);
    }
  }

  // Both sides are computed: they must be safe.
  bool choose(int id) {
    const int* src = steps_[id].src;
    const bool is_chosen = is_defined(src[0]), first = is_defined(src[1]), second = is_defined(src[2]);
    if (!is_chosen) return false;
    const bool is_first = values_[src[0]].i;
    values_[id] = values_[is_first ? src[1] : src[2]];
    return is_first ? first : second;
  }

  bool apply(int id) {
    const Step& step = steps_[id];
    ENSURE(step.function, "cannot evaluate " + std::string(name_of(step.kind)));
    const Scalar* src[3];
    bool defined = true;
    for (int i = 0; i < step.count; ++i) {
      defined &= is_defined(step.src[i]);
      src[i] = &values_[step.src[i]];
    }
    return defined && step.function(cells_[id].op, src, &values_[id]);
  }

  bool load(int id) {
    const Ref node = cells_[id].node;
    const LoadView load(node);
    if (!is_defined(cells_[id].operand)) {
      fail(Op::Load, load.offset, "the offset is undefined");
      return false;
    }
    if (!read_checked(load.buffer, load.offset, values_[cells_[id].operand].i, node->dtype, &values_[id])) return false;
    const int64_t most = most_loaded(node), loaded = values_[id].i;
    if (most > 0 && (loaded < 0 || loaded > most)) {
      fail(Op::Load, load.offset, std::to_string(loaded) + " is not within 0 and " + std::to_string(most));
      return false;
    }
    return true;
  }

  // What lies at a byte of a buffer; false if it is not all inside. `offset`: what led there, for people.
  bool read_checked(Ref buffer, Ref offset, int64_t at, DType dtype, Scalar* found) {
    std::span<const std::byte> memory;
    const int64_t number = number_of_buffer(buffer);
    if (buffer->op == Op::Local)
      memory = locals_[number];
    else
      memory = request_.buffers.at(static_cast<size_t>(number));
    const int64_t size = size_of(dtype);
    if (at < 0 || at > static_cast<int64_t>(memory.size()) - size) {
      fail(Op::Load, offset,
           "byte " + std::to_string(at) + " is outside of " + std::string(name_of(buffer->op)) + " " +
               std::to_string(number) + ", which has " + std::to_string(memory.size()) + " bytes");
      return false;
    }
    *found = read(memory, at, dtype);
    return true;
  }

  // Of a product in memory: those in fragments belong to threads, which trees for this evaluator have none of.
  bool matrix_item(int id) {
    const MatrixItemView item(cells_[id].node);
    const MatrixShape shape = matrix_shape(item.product->arg.list);
    ENSURE(!shape.in_fragments, "a product of fragments outside of a program");
    const int64_t number = value(item.number).i, lane = value(item.lane).i;
    const int64_t row = number / shape.blocks, column = number % shape.blocks * shape.block_stride + 4 * lane;
    const MatrixInMemoryView operands(item.product);
    std::vector<uint32_t> a, b;
    for (int64_t k = 0; k < shape.words(); ++k)
      if (!add_word(operands.a, operands.a_offset, row * shape.a_stride + 4 * k, a) ||
          !add_word(operands.b, operands.b_offset, k * shape.b_stride + column, b))
        return false;
    values_[id] = shape.of_halves ? Scalar{.f = round_to(sum_of_halves(0, a, b), working(DType::F32))}
                                  : Scalar{.i = matrix_sum(shape, 0, a, b)};
    return true;
  }

  bool add_word(Ref buffer, Ref offset, int64_t more, std::vector<uint32_t>& words) {
    const int at = cell_of(offset);
    Scalar word;
    if (!is_defined(at) || !read_checked(buffer, offset, values_[at].i + more, DType::U32, &word)) return false;
    words.push_back(static_cast<uint32_t>(word.i));
    return true;
  }

  bool reduce(int id) {
    const Cell& cell = cells_[id];
    const ScalarFunction function = steps_[id].function;
    const DType dtype = cell.op.dtype;
    Scalar total;
    if (cell.op.op == Op::Max) total = is_float(dtype) ? Scalar{.f = kLowest} : Scalar{.i = lowest_int(dtype)};
    bool defined = true;
    for_each(cell.ranges, [&] {
      for (int each : cell.values) {
        defined &= is_defined(each);
        const Scalar* terms[] = {&total, &values_[each]};
        defined = defined && function(cell.op, terms, &total);
      }
    });
    values_[id] = total;
    return defined;
  }

  // The terms of a round, as scores and values.
  std::vector<std::pair<int, int>> terms_of_round(int id) {
    const std::vector<int>& values = cells_[id].values;
    const Ref node = cells_[id].node;
    if (has_shared_rounds(node) && SharedRoundView(node).has_all_values())
      return {{values[0], values[1 + static_cast<size_t>(value(SharedRoundView(node).lane).i)]}};
    std::vector<std::pair<int, int>> terms;
    for (size_t i = 0; i < values.size(); i += 2) terms.emplace_back(values[i], values[i + 1]);
    return terms;
  }

  // In two passes, as it is defined: the greatest score, then the sum.
  bool softmax_sum(int id) {
    double top = kLowest, total = 0;
    bool defined = true;
    for_each(cells_[id].ranges, [&] {
      for (const auto& [score, v] : terms_of_round(id)) top = std::max(top, value(score).f);
    });
    for_each(cells_[id].ranges, [&] {
      for (const auto& [score, v] : terms_of_round(id)) {
        defined &= is_defined(score);
        defined &= is_defined(v);
        if (values_[score].f > kMaskedScore) total += std::exp(values_[score].f - top) * values_[v].f;
      }
    });
    values_[id] = {.f = total};
    return defined;
  }

  bool top_k(int id) {
    std::vector<Scalar> all;
    const bool floats = is_float(ReduceView(cells_[id].node).values[0]->dtype);
    for_each(cells_[id].ranges, [&] { all.push_back(value(cells_[id].values[0])); });
    std::vector<int64_t> order(all.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return floats ? all[a].f > all[b].f : all[a].i > all[b].i; });
    order.resize(static_cast<size_t>(top_count(cells_[id].node)), 0);
    cells_[id].best = std::move(order);
    return true;
  }

  const KernelEvalRequest& request_;
  std::map<int64_t, std::vector<std::byte>>& locals_;
  std::unordered_map<const Node*, int> index_;
  std::vector<Cell> cells_;
  std::vector<Step> steps_;     // by cell
  std::vector<Scalar> values_;  // by cell
  std::vector<State> states_;   // by cell
  std::string problem_;
};

// The nests of one tile in order; those in a loop over chunks in each of its iterations.
Status run_tile(const KernelEvalRequest& request, std::span<const Ref> nests, std::map<const Node*, int64_t> fixed,
                int64_t wanted, std::map<int64_t, std::vector<std::byte>>& locals, std::vector<KernelElement>& out) {
  while (!nests.empty()) {
    const Ref chunks = chunk_range(nests[0]->src);
    size_t n = 1;
    while (n < nests.size() && chunk_range(nests[n]->src) == chunks) ++n;
    const int64_t rounds = chunks ? NestEvaluator(request, locals).length_of(chunks, fixed) : 1;
    for (int64_t round = 0; round < rounds; ++round) {
      if (chunks) fixed[chunks.get()] = round;
      for (Ref nest : nests.first(n)) {
        NestEvaluator evaluator(request, locals);  // a new one: locals have changed
        SMELT_CHECK(evaluator.run(stores_of(nest), fixed, wanted, out));
      }
    }
    if (chunks) fixed.erase(chunks.get());
    nests = nests.subspan(n);
  }
  return {};
}

// Of a tile without chunks; those with chunks are all computed.
bool has_wanted(const KernelEvalRequest& request, std::span<const Ref> nests,
                const std::map<const Node*, int64_t>& fixed, std::map<int64_t, std::vector<std::byte>>& locals) {
  const auto stores_only_locals = [](Ref nest) { return StoreView(stores_of(nest)[0]).buffer->op == Op::Local; };
  return std::any_of(nests.begin(), nests.end(), [&](Ref nest) { return chunk_range(nest->src) != Ref(); }) ||
         std::all_of(nests.begin(), nests.end(), stores_only_locals) ||
         std::any_of(nests.begin(), nests.end(),
                     [&](Ref nest) { return NestEvaluator(request, locals).has_wanted(stores_of(nest), fixed); });
}

// The nests of a tile, or a single one (no ranges): for each choice of the ranges they run in order.
Status run_tiles(const KernelEvalRequest& request, const Refs& nests, const Refs& ranges,
                 std::map<int64_t, std::vector<std::byte>>& locals, std::vector<KernelElement>& out) {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (Ref r : ranges) {
    ScalarValues leaves;
    for (Ref v : toposort(RangeView(r).size))
      if (v->op == Op::Var) leaves[v] = Scalar{.i = request.variables.at(v->arg.name)};
    sizes.push_back(eval_scalar(RangeView(r).size, leaves)->i);
    count *= sizes.back();
  }
  // Evenly from the first to the last tile, and in each a part of the elements.
  const int64_t tiles = std::min(count, request.elements_per_store);
  const int64_t wanted = (request.elements_per_store - 1) / std::max<int64_t>(tiles, 1) + 1;
  for (int64_t k = 0; k < tiles; ++k) {
    int64_t rest = static_cast<int64_t>(static_cast<__int128>(count - 1) * k / std::max<int64_t>(tiles - 1, 1));
    std::map<const Node*, int64_t> fixed;
    for (size_t i = ranges.size(); i-- > 0;) {
      fixed[ranges[i].get()] = rest % sizes[i];
      rest /= sizes[i];
    }
    if (request.wants && !has_wanted(request, nests, fixed, locals)) continue;
    SMELT_CHECK(run_tile(request, nests, fixed, wanted, locals, out));
  }
  return {};
}

}  // namespace

Result<std::vector<KernelElement>> evaluate_kernel(const KernelEvalRequest& request) {
  std::vector<KernelElement> elements;
  std::map<int64_t, std::vector<std::byte>> locals;
  Refs nests;
  for (Ref nest : request.tree->src) nests.push_back(nest->op == Op::Sink ? nest : make(Op::Sink, DType::Void, {nest}));
  for (size_t first = 0; first < nests.size();) {
    const Refs ranges = tile_ranges(nests[first]->src);
    size_t behind = first + 1;
    while (behind < nests.size() && run_together(nests[first]->src, nests[behind]->src)) ++behind;
    const Refs together(nests.begin() + first, nests.begin() + behind);
    SMELT_CHECK(run_tiles(request, together, ranges, locals, elements));
    first = behind;
  }
  return elements;
}

bool rounds_floats(Ref tree) {
  const Refs nodes = toposort(tree);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](Ref n) { return n->op == Op::Cast && is_int(n->dtype) && is_float(operand_of(n)->dtype); });
}

KernelDifference difference(const std::vector<KernelElement>& expected,
                            const std::vector<std::span<const std::byte>>& buffers, bool rounded) {
  std::map<int64_t, double> greatest;
  for (const KernelElement& e : expected)
    if (!is_float(e.dtype) || e.value.f > kMaskedScore)
      greatest[e.buffer] = std::max(greatest[e.buffer],
                                    is_float(e.dtype) ? std::abs(e.value.f) : std::abs(static_cast<double>(e.value.i)));
  KernelDifference worst;
  for (const KernelElement& e : expected) {
    const Scalar got = read(buffers[static_cast<size_t>(e.buffer)], e.offset, e.dtype);
    const double d = distance(e, got, 1 + greatest[e.buffer], rounded);
    if (d <= worst.worst) continue;
    const std::string values = is_float(e.dtype) ? std::to_string(got.f) + " instead of " + std::to_string(e.value.f)
                                                 : std::to_string(got.i) + " instead of " + std::to_string(e.value.i);
    worst = {d, "buffer " + std::to_string(e.buffer) + " byte " + std::to_string(e.offset) + ": " + values};
  }
  return worst;
}

}  // namespace smelt
