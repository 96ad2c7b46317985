#include "codegen/heuristics.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/loop_order.h"
#include "codegen/matrix_cost.h"
#include "codegen/matrix_rows.h"
#include "codegen/stage.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kUnrolled = 16;        // terms of a reduction written out when they are vectors,
constexpr int64_t kUnrolledScalar = 64;  // and when lanes hold outputs: then a block has more terms
constexpr int64_t kAccumulators = 16;    // sums kept in registers
constexpr int64_t kPairs = 4;            // neighbours computed side by side where nothing else is
constexpr int64_t kSharedColumns = 8;    // vectors of columns for which a weight is computed once
constexpr int64_t kPanelBytes =
    192 << 10;  // of unpacked weights: they stay in a cache beside activations
constexpr int64_t kMostPanelRows = 256;
constexpr int64_t kBody = 512;  // copies x terms in a loop body

// How the loads below an expression move with a range.
struct Walk {
  int neighbours =
      0;  // next value, next element (or the next word, for bytes: see coalesce_loads.cpp)
  int scattered = 0;  // any other step
};

Walk walk(const Refs& roots, Ref range) {
  Walk w;
  for (Ref root : roots)
    for (Ref n : toposort(root)) {
      if (n->op != Op::Load || !depends_on(n->src[1], range)) continue;
      const auto step = stride(n->src[1], range);
      const bool near = step == size_of(n->dtype) || (step == 4 && size_of(n->dtype) == 1);
      (near ? w.neighbours : w.scattered)++;
    }
  return w;
}

Refs reductions_of(const Refs& stores) {
  Refs found;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_reduce(n->op) && std::find(found.begin(), found.end(), n) == found.end())
        found.push_back(n);
  return found;
}

Refs own_ranges(Ref reduce) {
  Refs out;
  for (Ref s : reduce->src)
    if (s->op == Op::Range) out.push_back(s);
  return out;
}

bool holds_reduction(Ref reduce) {
  for (Ref s : reduce->src)
    for (Ref n : toposort(s))
      if (is_reduce(n->op)) return true;
  return false;
}

class Chooser {
 public:
  Chooser(const Refs& stores, const Machine& machine) : stores_(stores), machine_(machine) {}

  std::vector<Opt> run(bool is_local) {
    if (!is_local && !is_part_of_tile()) choose_stage();
    choose_pack();
    choose_local();
    choose_dot();
    choose_group();
    if (!choose_matrix()) {
      const bool is_in_task = is_part_of_tile() && !is_staged(opts_) && !goes_in_passes(stores_[0]);
      if (is_in_task || is_product_of_reused()) choose_block();
      choose_unroll();
      if (has_local_) choose_unroll_of_bytes();
      choose_upcast();
    }
    if (!is_local && !is_part_of_tile()) {
      choose_order();
      choose_tasks();
    }
    return opts_;
  }

 private:
  bool is_part_of_tile() const {
    const Refs axes = axes_of(stores_);
    return std::any_of(axes.begin(), axes.end(),
                       [](Ref r) { return kind_of(r) == RangeKind::Tile; });
  }

  bool try_opt(Opt opt) {
    if (!why_not(stores_, opt).empty()) return false;
    stores_ = apply_opt(stores_, opt);
    opts_.push_back(opt);
    return true;
  }

  int axis_of(Ref range) const {
    const Refs axes = axes_of(stores_);
    return static_cast<int>(std::find(axes.begin(), axes.end(), range) - axes.begin());
  }

  Refs output_axes() const {
    Refs out;
    for (Ref r : axes_of(stores_))
      if (is_output_axis(stores_, r)) out.push_back(r);
    return out;
  }

  int64_t lanes_for(Ref range) const {
    for (int64_t w = machine_.lanes; w >= 4; w /= 2)
      if (known_divisor(range->src[0]) % w == 0) return w;
    return 0;
  }

  // Weights are unpacked once for all tokens of a prompt. Panels of experts serve some thirty tokens each, which does
  // not pay for making them (measured: 0.75 to 1.1 times the speed with 512 tokens, half of it with 64).
  void choose_stage() {
    for (Ref axis : output_axes()) {
      if (is_const(axis->src[0])) continue;
      const Panel panel = panel_of(stores_, axis_of(axis));
      if (panel.bytes_of_row == 0 || panel.jumps) continue;
      for (int64_t rows = kMostPanelRows; rows >= kPanelLanes; rows /= 2)
        if (rows * panel.bytes_of_row <= kPanelBytes &&
            try_opt({OptKind::Stage, axis_of(axis), rows}))
          return;
    }
  }

  // Bytes side by side are stored by words, unless they are only copied: then lanes hold as many.
  void choose_pack() {
    if (copies_neighbours()) return;
    for (Ref r : output_axes())
      if (kind_of(r) == RangeKind::Loop && try_opt({OptKind::Pack, axis_of(r), 4})) return;
  }

  bool copies_neighbours() const {
    const Refs axes = output_axes();
    return !axes.empty() && lanes_for(axes.back()) > 0 &&
           std::all_of(stores_.begin(), stores_.end(), [&](Ref s) {
             return s->src[2]->op == Op::Load &&
                    stride(s->src[1], axes.back()) == size_of(s->src[2]->dtype) &&
                    walk({s->src[2]}, axes.back()).neighbours == 1;
           });
  }

  // Neighbouring outputs in lanes, when everything they read lies side by side too.
  void choose_local() {
    const Refs axes = output_axes();
    if (axes.empty()) return;
    const Ref inner = axes.back();
    const Walk w = walk(stores_, inner);
    const int64_t lanes = lanes_for(inner);
    if (w.scattered > 0 || lanes == 0) return;
    if (!try_opt({OptKind::Local, axis_of(inner), lanes})) return;
    has_local_ = true;
    // The columns of an online softmax stay in registers, so that scores are computed once; where those are at hand, as
    // when chunks are combined, some columns share what is made of them.
    const Refs rest = output_axes();
    if (rest.size() < 2) return;
    const Ref outer = rest[rest.size() - 2];
    const auto n = const_int(outer->src[0]);
    if (!n || outer->arg.i != 2 * inner->arg.i) return;
    const bool computes = has_softmax([](Ref s) { return holds_reduction(s); });
    if (computes && *n <= 64) try_opt({OptKind::Upcast, axis_of(outer), *n});
    if (!computes && has_softmax([](Ref s) { return !varies_in_lanes(s->src[0]); }))
      try_opt({OptKind::Upcast, axis_of(outer), kSharedColumns});
  }

  template <class Is>
  bool has_softmax(Is is) const {
    return std::any_of(stores_.begin(), stores_.end(), [&](Ref store) {
      const Refs nodes = toposort(store);
      return std::any_of(nodes.begin(), nodes.end(),
                         [&](Ref n) { return n->op == Op::SoftmaxSum && is(n); });
    });
  }

  // Sums of products of bytes, four at a time.
  void choose_dot() {
    for (bool again = true; again;) {
      again = false;
      for (Ref reduce : reductions_of(stores_)) {
        if (reduce->op != Op::ReduceSum || reduce->dtype != DType::I32) continue;
        const Refs ranges = own_ranges(reduce);
        if (std::any_of(ranges.begin(), ranges.end(),
                        [](Ref r) { return kind_of(r) == RangeKind::Packed; }))
          continue;
        for (Ref r : ranges)
          if ((again = try_opt({OptKind::Dot, axis_of(r), 4}))) break;
        if (again) break;
      }
    }
  }

  // Terms of a sum in lanes, where these read neighbours.
  void choose_group() {
    for (bool again = true; again;) {
      again = false;
      for (Ref reduce : reductions_of(stores_)) {
        Ref best;
        int best_score = 0;
        for (Ref r : own_ranges(reduce)) {
          if (lanes_for(r) == 0 ||
              !why_not(stores_, {OptKind::Group, axis_of(r), lanes_for(r)}).empty())
            continue;
          const Walk w = walk({reduce->src[0]}, r);
          const int score = w.neighbours - 2 * w.scattered;
          if (score > best_score) best_score = score, best = r;
        }
        if (best && !varies_in_lanes(reduce->src[0]) &&
            try_opt({OptKind::Group, axis_of(best), lanes_for(best)})) {
          again = true;
          break;
        }
      }
    }
  }

  // Sums of bytes of several rows as products of matrices, where that takes fewer cycles than a sum each.
  bool choose_matrix() {
    if (!machine_.byte_matrices || !has_local_) return false;
    const Refs stores = stores_;
    const std::vector<Opt> opts = opts_;
    unroll_words();
    if (add_rows()) {
      choose_unroll();
      choose_unroll_of_bytes();
      return true;
    }
    stores_ = stores, opts_ = opts;
    return false;
  }

  // As many words as a product may have.
  void unroll_words() {
    for (bool again = true; again;) {
      again = false;
      for (Ref reduce : reductions_of(stores_)) {
        int64_t written = 1;
        Refs loops;
        bool packed = false;
        for (Ref r : own_ranges(reduce)) {
          packed |= kind_of(r) == RangeKind::Packed;
          if (kind_of(r) == RangeKind::Unroll) written *= r->src[0]->arg.i;
          if (kind_of(r) == RangeKind::Reduce) loops.push_back(r);
        }
        if (!packed || loops.empty()) continue;
        const int64_t most = kMatrixWords / written, size = known_divisor(loops.back()->src[0]);
        for (int64_t n = std::min(most, size); n > 1 && !again; --n)
          if (size % n == 0) again = try_opt({OptKind::Unroll, axis_of(loops.back()), n});
        if (again) break;
      }
    }
  }

  bool add_rows() {
    Opt best{OptKind::Matrix};
    double best_cycles = 1;  // of those that sums of words take
    for (Ref axis : output_axes()) {
      if (kind_of(axis) != RangeKind::Loop) continue;
      for (int64_t n : block_sizes(axis, kMatrixRows)) {
        const Opt opt{OptKind::Matrix, axis_of(axis), n};
        if (n < 2 || !why_not(stores_, opt).empty()) continue;
        double tiles = 0, dots = 0;
        for (const MatrixShape& shape : matrix_products(apply_opt(stores_, opt)))
          tiles += tile_cycles(shape), dots += dot_cycles(shape);
        if (tiles / dots < best_cycles) best = opt, best_cycles = tiles / dots;
      }
    }
    return best_cycles < 1 && try_opt(best);
  }

  // Numbers that a term is made of, without those that only say where others are.
  static Refs operands_of(Ref term) {
    Refs loads, stack{term};
    std::unordered_set<const Node*> seen;
    while (!stack.empty()) {
      const Ref n = stack.back();
      stack.pop_back();
      if (!seen.insert(n.get()).second) continue;
      if (n->op == Op::Load) loads.push_back(n);
      if (n->op != Op::Load && !is_reduce(n->op) && n->op != Op::Range)
        stack.insert(stack.end(), n->src.begin(), n->src.end());
    }
    return loads;
  }

  Ref largest_sum() const {
    Ref largest;
    for (Ref reduce : reductions_of(stores_))
      if (reduce->op == Op::ReduceSum && !holds_reduction(reduce) &&
          (!largest || size_of_sum(reduce) > size_of_sum(largest)))
        largest = reduce;
    return largest;
  }

  // Floats of both sides serve many outputs, as those of a router's matrix and of the tokens of a prompt do: then they
  // come from the caches. Rows of a matrix that one token reads come from memory, one after the other.
  bool is_product_of_reused() const {
    const Ref product = largest_sum();
    if (has_local_ || !product || !is_float(product->dtype)) return false;
    const Refs axes = output_axes(), operands = operands_of(product->src[0]);
    return operands.size() >= 2 && std::all_of(operands.begin(), operands.end(), [&](Ref x) {
             return is_float(x->dtype) && std::any_of(axes.begin(), axes.end(), [&](Ref axis) {
                      return kind_of(axis) == RangeKind::Loop && !depends_on(x->src[1], axis);
                    });
           });
  }

  // What a tile works on comes from the caches, so its products are those of small matrices: a block of sums in
  // registers, as wide along two output axes as saves most loads.
  void choose_block() {
    const Ref product = largest_sum();
    if (!product) return;
    const Refs operands = operands_of(product->src[0]);
    if (operands.size() < 2) return;
    Refs axes = output_axes();
    std::erase_if(axes, [](Ref r) { return kind_of(r) != RangeKind::Loop; });
    const int64_t most = machine_.registers * 5 / 8 / sums_around(product);
    Block best;
    for (Ref a : axes)
      for (Ref b : axes)
        for (int64_t na : block_sizes(a, most))
          for (int64_t nb : a == b ? std::vector<int64_t>{1} : block_sizes(b, most / na)) {
            const Block block{a, b, na, nb, loads_per_sum(operands, a, na, b, nb)};
            if (block.loads < best.loads) best = block;
          }
    is_block_ = best.na * best.nb > 1;
    if (best.na > 1) try_opt({OptKind::Upcast, axis_of(best.a), best.na});
    if (best.nb > 1) try_opt({OptKind::Upcast, axis_of(best.b), best.nb});
  }

  // A sum, and those whose terms it is part of, are under way at once.
  int64_t sums_around(Ref sum) const {
    int64_t sums = 0;
    for (Ref reduce : reductions_of(stores_)) sums += depends_on(reduce, sum);
    return std::max<int64_t>(sums, 1);
  }

  struct Block {
    Ref a, b;
    int64_t na = 1, nb = 1;
    double loads = 1e9;  // for a term of one sum
  };

  static double size_of_sum(Ref reduce) {
    double size = 1;
    for (Ref r : own_ranges(reduce))
      size *= static_cast<double>(const_int(r->src[0]).value_or(r->src[0]->max));
    return size;
  }

  static std::vector<int64_t> block_sizes(Ref axis, int64_t most) {
    std::vector<int64_t> sizes;
    const int64_t n = known_divisor(axis->src[0]);
    for (int64_t d = 1; d <= most; ++d)
      if (n % d == 0) sizes.push_back(d);
    return sizes;
  }

  // Those of narrow types are conversions, too.
  static double loads_per_sum(const Refs& operands, Ref a, int64_t na, Ref b, int64_t nb) {
    double loads = 0;
    for (Ref x : operands) {
      double each = size_of(x->dtype) < 4 ? 2 : 1;
      if (depends_on(x->src[1], a)) each *= static_cast<double>(na);
      if (a != b && depends_on(x->src[1], b)) each *= static_cast<double>(nb);
      loads += each;
    }
    return loads / static_cast<double>(na * nb);
  }

  // The parts of a block are written out; a plain long loop gets a few terms an iteration.
  void choose_unroll() {
    const int64_t most = is_block_ ? kUnrolled / 2 : has_local_ ? kUnrolledScalar : kUnrolled;
    for (bool again = true; again;) {
      again = false;
      for (Ref reduce : reductions_of(stores_)) {
        if (holds_reduction(reduce) || reduce->op == Op::TopK || reduce->op == Op::SoftmaxSum)
          continue;
        int64_t written = 1;
        Refs loops;
        for (Ref r : own_ranges(reduce)) {
          if (kind_of(r) == RangeKind::Unroll) written *= r->src[0]->arg.i;
          if (kind_of(r) == RangeKind::Reduce) loops.push_back(r);
        }
        if (loops.empty()) continue;
        const Ref inner = loops.back();
        const auto size = const_int(inner->src[0]);
        if (size && *size > 1 && *size * written <= most)
          again = try_opt({OptKind::Unroll, axis_of(inner), *size});
        else if (written < 2 && !is_block_)
          for (int64_t n : {4, 2})
            if ((again = try_opt({OptKind::Unroll, axis_of(inner), n}))) break;
        if (again) break;
      }
    }
  }

  // Loops around other sums are written out where that tells which byte of a word is read (see coalesce_loads.cpp), or
  // by how much a word is shifted.
  void choose_unroll_of_bytes() {
    if (is_part_of_tile() && reductions_of(stores_).empty())
      for (Ref r : output_axes())
        for (Ref s : stores_) {
          const auto size = const_int(r->src[0]);
          if (kind_of(r) == RangeKind::Loop && size && *size > 1 && moves_in_word(s->src[2], r))
            try_opt({OptKind::Upcast, axis_of(r), *size % 4 == 0 ? 4 : *size});
        }
    for (bool again = true; again;) {
      again = false;
      for (Ref reduce : reductions_of(stores_))
        for (Ref r : own_ranges(reduce)) {
          const auto size = const_int(r->src[0]);
          if (kind_of(r) != RangeKind::Reduce || !size || !moves_in_word(reduce, r)) continue;
          if ((again = try_opt({OptKind::Unroll, axis_of(r), *size % 4 == 0 ? 4 : *size}))) break;
        }
    }
  }

  static bool moves_in_word(Ref reduce, Ref range) {
    for (Ref n : toposort(reduce)) {
      if ((n->op == Op::Shr || n->op == Op::Shl) && depends_on(n->src[1], range)) return true;
      if (n->op != Op::Load || size_of(n->dtype) != 1 || !depends_on(n->src[1], range)) continue;
      if (depends_on(simplify(n->src[1] % 4), range)) return true;
    }
    return false;
  }

  // Work saved by computing neighbours along an axis together: what does not depend on it is shared. Unpacking weights
  // is worth it; reading the same floats again is not, as they come from the first-level cache, while several rows of
  // a matrix streamed side by side confuse the prefetchers (measured: 2-3 times slower from memory).
  int shared_work(Ref axis) const {
    int work = 0;
    for (Ref reduce : reductions_of(stores_))
      for (Ref n : toposort(reduce))
        if (n->op == Op::Load && size_of(n->dtype) < 4 && varies_in_lanes(n->src[1]) &&
            !depends_on(n->src[1], axis))
          ++work;
    return work;
  }

  void choose_upcast() {
    if (is_block_) return;
    int64_t sums = 0, written = 1;
    for (Ref reduce : reductions_of(stores_)) {
      if (reduce->op == Op::TopK || reduce->op == Op::SoftmaxSum) return;
      if (!holds_reduction(reduce)) ++sums;
    }
    for (Ref r : axes_of(stores_))
      if (!is_output_axis(stores_, r) && kind_of(r) == RangeKind::Unroll)
        written *= r->src[0]->arg.i;
    if (sums == 0) return choose_pairs();
    Refs axes = output_axes();
    std::erase_if(axes,
                  [&](Ref r) { return kind_of(r) != RangeKind::Loop || shared_work(r) == 0; });
    std::stable_sort(axes.begin(), axes.end(),
                     [&](Ref a, Ref b) { return shared_work(a) > shared_work(b); });
    int64_t copies = 1;
    for (Ref axis : axes)
      for (int64_t n : {8, 4, 2}) {
        if (n > 4 && !has_local_) continue;
        if (copies * n * sums > kAccumulators || copies * n * written > kBody) continue;
        if (!try_opt({OptKind::Upcast, axis_of(axis), n})) continue;
        copies *= n;
        break;
      }
  }

  // Neighbours that have no lanes, such as the two numbers of a rotation, share what they are made of.
  void choose_pairs() {
    const Refs axes = output_axes();
    if (has_local_ || axes.empty() || kind_of(axes.back()) != RangeKind::Loop) return;
    const auto size = const_int(axes.back()->src[0]);
    if (size && *size > 1 && *size <= kPairs)
      try_opt({OptKind::Upcast, axis_of(axes.back()), *size});
  }

  void choose_order() {
    for (const Opt& opt : choose_loop_order(stores_, machine_.cache_bytes)) try_opt(opt);
  }

  // Tasks in which the workers would do the same again are no tasks: a sum that does not depend on the axis, but on
  // those outside of it, belongs to all of its iterations.
  bool repeats_sums(Ref axis) const {
    const Refs reductions = reductions_of(stores_);
    return std::any_of(reductions.begin(), reductions.end(), [&](Ref reduce) {
      const Refs ranges = ranges_of(reduce);
      return !depends_on(reduce, axis) && std::any_of(ranges.begin(), ranges.end(), [](Ref r) {
        return kind_of(r) == RangeKind::Task;
      });
    });
  }

  void choose_tasks() {
    int64_t tasks = 1;
    while (tasks < machine_.tasks) {
      const Refs axes = output_axes();
      const auto next = std::find_if(axes.begin(), axes.end(),
                                     [](Ref r) { return kind_of(r) == RangeKind::Loop; });
      if (next == axes.end() || repeats_sums(*next)) break;
      const int64_t iterations = least_iterations(*next);
      if (!try_opt({OptKind::Task, axis_of(*next)})) break;
      tasks *= iterations;
    }
  }

  // Each task costs divisions, which is more than some of them do. Where iterations differ in work, of a number that is
  // not known some may have none.
  int64_t least_iterations(Ref axis) const {
    if (const auto n = const_int(axis->src[0])) return *n;
    return is_ragged(stores_, axis) ? 1 : std::max<int64_t>(axis->src[0]->min, 1);
  }

  Refs stores_;
  const Machine& machine_;
  std::vector<Opt> opts_;
  bool has_local_ = false;
  bool is_block_ = false;  // a block of sums fills the registers
};

}  // namespace

std::vector<Opt> choose_opts(const Refs& stores, const Machine& machine, bool is_local) {
  return Chooser(stores, machine).run(is_local);
}

}  // namespace smelt
