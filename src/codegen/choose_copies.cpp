// What is written out: the terms of a sum, and neighbouring outputs that share what they are made of.
#include <algorithm>
#include <set>

#include "codegen/footprint.h"
#include "codegen/opt_choice.h"
#include "codegen/panel.h"
#include "codegen/sum_order.h"
#include "graph/args.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kPairs = 4;           // neighbours computed side by side where nothing else is
constexpr int64_t kLoadsTogether = 32;  // of rounds that a thread makes side by side

// Shifts by what is read, such as by bits of a parity, are as they are in any copy.
bool moves_in_word(Ref reduce, Ref range) {
  for (Ref n : toposort(reduce)) {
    const bool is_shift = n->op == Op::Shr || n->op == Op::Shl;
    if (is_shift && depends_on(BinaryView(n).y, range) && !reads_memory(BinaryView(n).y)) return true;
    if (n->op != Op::Load || size_of(n->dtype) != 1 || !depends_on(LoadView(n).offset, range)) continue;
    if (depends_on(simplify(LoadView(n).offset % 4), range)) return true;
  }
  return false;
}

// As a prompt has, whose number is not known when its kernels are made.
bool has_many_tokens(const Refs& axes) {
  return std::any_of(axes.begin(), axes.end(), [](Ref r) { return !const_int(RangeView(r).size); });
}

// A product of floats of which blocks of threads have far more outputs than there are processors.
bool is_batch_of_floats(const OptChoice& c) {
  constexpr int64_t kMany = 16;
  int64_t outputs = 1;
  for (Ref r : c.output_axes()) outputs *= const_int(RangeView(r).size).value_or(0);
  if (outputs < kMany * c.machine.tasks) return false;
  const Refs reductions = reductions_of(c.stores);
  return std::all_of(reductions.begin(), reductions.end(), [](Ref reduce) {
    const Refs nodes = toposort(reduce);
    return std::none_of(nodes.begin(), nodes.end(),
                        [](Ref n) { return n->op == Op::Load && size_of(n->dtype) < size_of(DType::F32); });
  });
}

// Work saved by computing neighbours along an axis together: what does not depend on it is shared. Unpacking weights
// is worth it; reading the same floats again is not, as they come from the first-level cache, while several rows of
// a matrix streamed side by side confuse the prefetchers (measured: 2-3 times slower from memory). Blocks of threads
// read the matrix for each of many tokens from the second level, all at once; for few tokens more of its rows are for
// more threads.
int shared_work(const OptChoice& c, Ref axis) {
  int work = 0;
  const Refs axes = c.output_axes();
  const bool is_batch = has_many_tokens(axes) || is_batch_of_floats(c);
  const int64_t most_bytes = c.machine.has_threads() && is_batch && !c.is_part_of_tile() ? 4 : 2;
  for (Ref reduce : reductions_of(c.stores))
    for (Ref n : toposort(reduce)) {
      if (n->op != Op::Load || size_of(n->dtype) > most_bytes) continue;
      const auto [buffer, offset] = LoadView(n);
      if (c.machine.has_threads() && !is_batch && is_given(buffer) && depends_on(offset, axis)) return 0;
      work += varies_in_lanes(offset) && !depends_on(offset, axis);
    }
  return work;
}

// That a step of the range reads from memory.
int64_t bytes_of_round(Ref term, Ref range) {
  int64_t bytes = 0;
  for (Ref n : toposort(term)) {
    if (n->op != Op::Load) continue;
    const auto [buffer, offset] = LoadView(n);
    if (buffer->op != Op::Param || !depends_on(offset, range)) continue;
    int64_t each = size_of(n->dtype);
    for (Ref r : ranges_of(offset))
      if (is_copies(r) || kind_of(r) == RangeKind::Byte) each *= known_divisor(RangeView(r).size);
    bytes += each;
  }
  return bytes;
}

// Loads of a round, each as often as it is written out; of those that move with the axis, if there is one.
// Of halves that go on chip, which are loaded side by side (choose_copied_halves), two count as one.
int64_t loads_written(const Refs& stores, Ref axis = {}) {
  std::set<const Node*> seen;
  int64_t loads = 0;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op != Op::Load || !seen.insert(n.get()).second) continue;
      if (axis && !depends_on(LoadView(n).offset, axis)) continue;
      int64_t times = 1;
      for (Ref r : ranges_of(LoadView(n).offset))
        if (is_copies(r)) times *= RangeView(r).count();
      const bool is_copied = StoreView(s).buffer->op == Op::Local && size_of(n->dtype) == size_of(DType::BF16);
      loads += is_copied ? (times + 1) / 2 : times;
    }
  return loads;
}

// Blocks of threads that find nothing to do help nobody: an axis of known size is first shared out.
bool leaves_enough_blocks(const OptChoice& c, int64_t copies) {
  const int64_t blocks = c.blocks_left();
  return !c.machine.has_threads() || blocks == 0 || blocks >= copies * c.machine.tasks;
}

// Neighbours that have no lanes, such as the two numbers of a rotation, share what they are made of.
void choose_pairs(OptChoice& c) {
  const Refs axes = c.output_axes();
  if (c.has_local || axes.empty() || kind_of(axes.back()) != RangeKind::Loop) return;
  const auto size = const_int(RangeView(axes.back()).size);
  if (size && *size > 1 && *size <= kPairs) c.try_opt({OptKind::Upcast, c.id_of(axes.back()), *size});
}

// Whether sums along the axis read the same bytes from memory, and others along another axis.
bool shares_bytes(const OptChoice& c, Ref axis) {
  Refs others = c.output_axes();
  std::erase_if(others, [&](Ref r) { return r == axis || kind_of(r) != RangeKind::Loop; });
  const auto is_shared = [&](Ref n) {
    if (n->op != Op::Load || LoadView(n).buffer->op != Op::Param || size_of(n->dtype) != 1) return false;
    const Ref offset = LoadView(n).offset;
    return !depends_on(offset, axis) &&
           std::any_of(others.begin(), others.end(), [&](Ref r) { return depends_on(offset, r); });
  };
  const Refs reductions = reductions_of(c.stores);
  return std::any_of(reductions.begin(), reductions.end(), [&](Ref reduce) {
    const Refs nodes = toposort(reduce);
    return depends_on(reduce, axis) && std::any_of(nodes.begin(), nodes.end(), is_shared);
  });
}

}  // namespace

bool holds_two_vectors(const Machine& machine) {
  constexpr int64_t kProducts = 4 * 2;
  return machine.registers >= 4 * kProducts;
}

// The parts of a block are written out; a plain long loop gets a few terms an iteration.
void choose_unroll(OptChoice& c) {
  const Machine& m = c.machine;
  const int64_t most = c.is_block ? m.vector_terms / 2 : c.has_local ? m.scalar_terms : m.vector_terms;
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_of(c.stores)) {
      if (holds_reduction(reduce) || reduce->op == Op::TopK || reduce->op == Op::SoftmaxSum) continue;
      int64_t written = partial_registers(reduce);
      Refs loops;
      for (Ref r : own_ranges(reduce)) {
        if (kind_of(r) == RangeKind::Unroll) written *= RangeView(r).count();
        if (kind_of(r) == RangeKind::Reduce) loops.push_back(r);
      }
      if (loops.empty()) continue;
      const Ref inner = loops.back();
      const auto size = const_int(RangeView(inner).size);
      if (size && *size > 1 && *size * written <= most)
        again = c.try_opt({OptKind::Unroll, c.id_of(inner), *size});
      else if (written < 2 && !c.is_block)
        for (int64_t n : {4, 2})
          if ((again = c.try_opt({OptKind::Unroll, c.id_of(inner), n}))) break;
      if (again) break;
    }
  }
}

// Loops around other sums are written out where that tells which byte of a word is read (see coalesce_loads.cpp), or
// by how much a word is shifted.
void choose_unroll_of_bytes(OptChoice& c) {
  if (c.is_part_of_tile() && reductions_of(c.stores).empty())
    for (Ref r : c.output_axes())
      for (Ref s : c.stores) {
        const auto size = const_int(RangeView(r).size);
        if (kind_of(r) == RangeKind::Loop && size && *size > 1 && moves_in_word(StoreView(s).value, r))
          c.try_opt({OptKind::Upcast, c.id_of(r), *size % 4 == 0 ? 4 : *size});
      }
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_of(c.stores))
      for (Ref r : own_ranges(reduce)) {
        const auto size = const_int(RangeView(r).size);
        if (kind_of(r) != RangeKind::Reduce || !size || !moves_in_word(reduce, r)) continue;
        if ((again = c.try_opt({OptKind::Unroll, c.id_of(r), *size % 4 == 0 ? 4 : *size}))) break;
      }
  }
}

// A thread waits for what it reads: the steps of its sums are written out until it has asked for enough at once. A step
// of partial sums, which are written out, is one of each.
void choose_rounds_in_flight(OptChoice& c, int64_t most, bool counts_partials) {
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_of(c.stores)) {
      if (!holds_reduction(reduce) || reduce->op == Op::TopK || reduce->op == Op::SoftmaxSum) continue;
      const Refs ranges = own_ranges(reduce);
      const auto loop =
          std::find_if(ranges.rbegin(), ranges.rend(), [](Ref r) { return kind_of(r) == RangeKind::Reduce; });
      if (loop == ranges.rend()) continue;
      const int64_t steps = counts_partials ? partial_registers(reduce) : 1,
                    bytes = steps * bytes_of_round(ReduceView(reduce).values[0], *loop),
                    size = known_divisor(RangeView(*loop).size);
      for (int64_t n = std::min(c.machine.flight_rounds, bytes ? most / bytes : 1); n > 1 && !again; --n)
        again = size % n == 0 && c.try_opt({OptKind::Unroll, c.id_of(*loop), n});
      if (again) break;
    }
  }
}

// The same for sums of numbers, which few threads share where each has many terms left: as many as a round of a block
// loads side by side. Their order stays.
void choose_terms_together(OptChoice& c) {
  for (bool again = true; again;) {
    again = false;
    const int64_t most = kLoadsTogether / std::max<int64_t>(loads_written(c.stores), 1);
    for (Ref reduce : reductions_of(c.stores)) {
      if (holds_reduction(reduce) || reduce->op != Op::ReduceSum) continue;
      for (Ref r : own_ranges(reduce)) {
        if (kind_of(r) != RangeKind::Reduce) continue;
        const int64_t n = greatest_divisor(RangeView(r).size, most);
        if ((again = n > 1 && c.try_opt({OptKind::Unroll, c.id_of(r), n}))) break;
      }
      if (again) break;
    }
  }
}

// A block that shares out what it makes for itself goes over its threads in rounds, and each would wait for what it
// loads: they are made side by side. All of them, if they can: a thread then has its own in registers for the next nest
// (keep_in_registers.h).
void choose_rounds_together(OptChoice& c, bool is_local) {
  for (Ref reduce : reductions_of(c.stores))
    if (reduce->op == Op::TopK) return;
  for (bool again = true; again;) {
    Refs axes = c.output_axes();
    std::reverse(axes.begin(), axes.end());
    again = std::any_of(axes.begin(), axes.end(), [&](Ref axis) {
      const auto size = const_int(RangeView(axis).size);
      if (kind_of(axis) != RangeKind::Loop || !size) return false;
      const int64_t loads = loads_written(c.stores, is_local ? axis : Ref()),
                    n = greatest_divisor(RangeView(axis).size, kLoadsTogether / std::max<int64_t>(loads, 1));
      return n > 1 && c.try_opt({OptKind::Upcast, c.id_of(axis), n});
    });
  }
}

namespace {

// Whether an output has one sum of a group of weights at a time: formats with minima have two, and where groups of a
// superblock are written out, there are as many.
bool has_one_group(const OptChoice& c) {
  int64_t groups = 0;
  for (Ref reduce : reductions_of(c.stores))
    if (!holds_reduction(reduce)) groups += copies_of(reduce) * partial_registers(reduce);
  return groups == 1;
}

// Where tokens share words of weights, both sides of a product come from the caches: 4 tokens and 2 vectors of rows
// load 6 times for 8 products, 8 tokens and 1 vector 9 times. The loop over those vectors, if there is one, and if
// there are registers. Words that are unpacked there, not in a panel, take some of them. `sharing`: axes along which
// outputs share words.
Ref vectors_of_rows(const OptChoice& c, const Refs& sharing) {
  if (!holds_two_vectors(c.machine)) return {};
  const Refs axes = c.output_axes();
  const bool is_unpacked_here =
      c.has_local && !c.machine.has_threads() && !sharing.empty() && has_many_tokens(axes) && has_one_group(c);
  if (!has_panel(c.opts) && !is_unpacked_here) return {};
  const auto it = std::find_if(axes.rbegin(), axes.rend(), [&](Ref r) {
    return kind_of(r) == RangeKind::Loop && shared_work(c, r) == 0 && known_divisor(RangeView(r).size) % 2 == 0;
  });
  return it == axes.rend() ? Ref() : *it;
}

// Those of a panel are neighbours.
bool take_two_vectors(OptChoice& c, Ref axis) {
  return has_panel(c.opts) ? c.try_opt({OptKind::Upcast, c.id_of(axis), 2}) : take_copies_apart(c, axis, 2);
}

}  // namespace

// Rows of a tile that read the same bytes, as heads do keys and values: a thread computes all of them from what it has
// read.
void choose_rows(OptChoice& c) {
  for (Ref axis : c.output_axes()) {
    const auto size = const_int(RangeView(axis).size);
    if (kind_of(axis) == RangeKind::Loop && size && *size <= c.machine.sums / 2 && shares_bytes(c, axis))
      c.has_rows |= c.try_opt({OptKind::Upcast, c.id_of(axis), *size});
  }
}

// As many neighbours along the axes that share most work as have room in registers and in a loop's body.
void choose_upcast(OptChoice& c) {
  if (c.is_block) return;
  int64_t sums = 0, written = 1;
  for (Ref reduce : reductions_of(c.stores)) {
    if (reduce->op == Op::TopK || reduce->op == Op::SoftmaxSum) return;
    if (!holds_reduction(reduce)) sums += partial_registers(reduce);
  }
  for (Ref r : axes_of(c.stores))
    if (!is_output_axis(c.stores, r) && kind_of(r) == RangeKind::Unroll) written *= RangeView(r).count();
  if (sums == 0) return choose_pairs(c);
  Refs axes = c.output_axes();
  std::erase_if(axes, [&](Ref r) { return kind_of(r) != RangeKind::Loop || shared_work(c, r) == 0; });
  std::stable_sort(axes.begin(), axes.end(), [&](Ref a, Ref b) { return shared_work(c, a) > shared_work(c, b); });
  const Ref vectors = vectors_of_rows(c, axes);
  if (vectors) axes.push_back(vectors);
  int64_t copies = 1;
  for (Ref axis : axes)
    for (int64_t n : {8, 4, 2}) {
      if (n > 4 && (!c.has_local || vectors)) continue;
      if (n > 2 && axis == vectors) continue;
      const bool fits = copies * n * sums <= c.machine.sums && copies * n * written <= c.machine.body_terms;
      if (!fits && axis != vectors) continue;  // two of these: half as many tokens have left room
      if (!leaves_enough_blocks(c, n)) continue;
      const bool taken = axis == vectors ? take_two_vectors(c, axis) : c.try_opt({OptKind::Upcast, c.id_of(axis), n});
      if (!taken) continue;
      copies *= n;
      break;
    }
}

}  // namespace smelt
