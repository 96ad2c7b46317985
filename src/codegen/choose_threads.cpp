// How a block of threads shares out a nest: neighbouring outputs, or terms of sums, to the threads of a warp, so that
// they read neighbouring words, and longer sums to several warps.
#include <algorithm>

#include "codegen/block_threads.h"
#include "codegen/opt_choice.h"
#include "codegen/sum_order.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kMostThreads = 512;    // of a block that are worth having: with some blocks a processor is full
constexpr int64_t kSmallThreads = 256;   // of blocks of which a processor is to have several
constexpr int64_t kThreadsOfRow = 128;   // of a row of many, each with a sum that its warps make for themselves
constexpr int64_t kManyRows = 8;         // for each processor
constexpr int64_t kTermsOfThread = 2;    // that a sum should leave to a thread at least, if they are no sums
constexpr int64_t kNeighbourBytes = 16;  // that a thread stores side by side
constexpr int64_t kCopiedBytes = 8;      // that it loads side by side, of elements of two bytes

// A tile of which there are fewer than processors has one of them for itself; or one that leaves no room on chip for
// another, of which the nest knows what the others of the tile take.
bool has_processor_for_itself(const OptChoice& c) {
  const int64_t others = c.machine.processor_memory_bytes - c.machine.block_memory_bytes;
  if (2 * others > c.machine.processor_memory_bytes) return true;
  int64_t tiles = 1;
  for (Ref r : tile_ranges(c.stores)) tiles *= const_int(RangeView(r).size).value_or(c.machine.processors);
  return tiles < c.machine.processors;
}

// Blocks are small for what each of them makes for itself, for tiles, of which there are many, and where nothing is
// summed up, so that threads do little but wait for what they load.
int64_t most_threads(const OptChoice& c, bool is_local) {
  const bool are_many = c.is_part_of_tile() && !c.has_rows && !has_processor_for_itself(c);
  const bool is_small = is_local || are_many || (!c.is_part_of_tile() && reductions_of(c.stores).empty());
  return std::min(is_small ? kSmallThreads : kMostThreads, c.machine.block_threads);
}

// The greatest power of two up to `most` of which the range's size is a multiple.
int64_t threads_for(Ref range, int64_t most) {
  int64_t n = 1;
  while (2 * n <= most && known_divisor(RangeView(range).size) % (2 * n) == 0) n *= 2;
  return n;
}

Ref innermost_loop(const OptChoice& c) {
  Refs axes = c.output_axes();
  std::erase_if(axes, [](Ref r) { return kind_of(r) != RangeKind::Loop; });
  return axes.empty() ? Ref() : axes.back();
}

// Sums and maxima that are part of no other one, and float sums wherever they are.
Refs reductions_to_share(const OptChoice& c) {
  Refs all = reductions_of(c.stores), shared;
  for (Ref n : all)
    if (has_order(n) || std::none_of(all.begin(), all.end(), [&](Ref m) { return m != n && depends_on(m, n); }))
      shared.push_back(n);
  return shared;
}

// The axis along which most loads read neighbours; the longest if none does. Of a float sum: of its partial sums.
Ref axis_to_group(Ref reduce) {
  if (has_order(reduce)) return last_partials(reduce);
  Ref best;
  std::pair<int, int64_t> most{};
  for (Ref r : own_ranges(reduce)) {
    if (kind_of(r) != RangeKind::Reduce) continue;
    const Walk w = walk({ReduceView(reduce).values.front()}, r);
    const std::pair<int, int64_t> score{std::max(w.neighbours - 2 * w.scattered, 0), known_divisor(RangeView(r).size)};
    if (!best || score > most) best = r, most = score;
  }
  return best;
}

int64_t terms_left(Ref reduce) {
  int64_t terms = 1;
  for (Ref r : own_ranges(reduce))
    if (kind_of(r) == RangeKind::Reduce || is_partial(r))
      terms *= const_int(RangeView(r).size).value_or(std::max<int64_t>(RangeView(r).size->max, 1));
  return terms;
}

// Terms that a thread has of each step: written out, or bytes of a word.
int64_t terms_of_step(Ref reduce) {
  int64_t terms = 1;
  for (Ref r : own_ranges(reduce))
    if (kind_of(r) == RangeKind::Unroll || kind_of(r) == RangeKind::Byte) terms *= RangeView(r).count();
  return terms;
}

// What GROUP may take of a partial sum's range: halves must be left, or nothing. An odd number has no halves: rather
// than leave all of it to a thread, whose registers it would fill, it may be more than `most`, if there is room.
int64_t group_for(Ref range, int64_t most, int64_t room) {
  const int64_t halves = threads_for(range, most), size = const_int(RangeView(range).size).value_or(0);
  if (!is_partial(range) || size == 0) return halves;
  return size <= most || (size % 2 != 0 && most > 1 && size <= room) ? size : halves;
}

// Terms of sums, as many times as that helps. A block that has several outputs to compute keeps its sums in few
// threads.
void choose_group_of_threads(OptChoice& c, bool is_local) {
  for (bool again = true; again;) {
    again = false;
    for (Ref reduce : reductions_to_share(c)) {
      const Ref axis = axis_to_group(reduce);
      const bool has_terms = holds_reduction(reduce) || (is_local && terms_of_step(reduce) >= kTermsOfThread);
      const int64_t least = has_terms ? 1 : kTermsOfThread;
      if (!axis || terms_left(reduce) < 2 * least) continue;
      const int64_t stride = stride_of_threads(c.stores, axis), outputs = outputs_left(c, reduce),
                    of_block = is_local || c.is_part_of_tile() ? outputs : outputs / c.machine.tasks,
                    room = most_threads(c, is_local) / stride,
                    together = std::max(room / std::max<int64_t>(of_block, 1), c.machine.warp_threads / stride),
                    n = group_for(axis, std::min({room, together, terms_left(reduce) / least}), room);
      if ((again = n > 1 && c.try_opt({OptKind::Group, c.id_of(axis), n}))) break;
    }
  }
}

// A thread takes neighbours of what is on chip, as it does where it makes them (choose_neighbours): it then has them in
// registers (keep_in_registers.h). Not of float sums, whose order is given.
void choose_neighbouring_terms(OptChoice& c) {
  for (Ref reduce : reductions_of(c.stores)) {
    const Ref axis = has_order(reduce) || is_int(reduce->dtype) ? Ref() : axis_to_group(reduce);
    if (axis && walk({ReduceView(reduce).values.front()}, axis).neighbours > 0 &&
        c.try_opt({OptKind::Unroll, c.id_of(axis), 4}))
      return;
  }
}

// Whether any order of terms gives the same bits, and all of them lie on chip.
bool is_free_sum_on_chip(Ref reduce) {
  if (has_order(reduce) || (reduce->op != Op::ReduceMax && !is_int(reduce->dtype))) return false;
  const Refs nodes = toposort(reduce);
  return std::all_of(nodes.begin(), nodes.end(), [&](Ref n) {
    return (!is_reduce(n->op) || n == reduce) && (n->op != Op::Load || LoadView(n).buffer->op == Op::Local);
  });
}

Refs axes_of_terms(Ref reduce) { return all_of_kind(own_ranges(reduce), RangeKind::Reduce); }

// The one sum or maximum of a nest, over one axis, if there is no more to it.
Ref only_free_sum(const OptChoice& c) {
  const Refs all = reductions_of(c.stores);
  return all.size() == 1 && is_free_sum_on_chip(all[0]) && axes_of_terms(all[0]).size() == 1 ? all[0] : Ref();
}

// A row of as many elements as a warp has threads: each takes the one that it has made, in a register
// (keep_in_registers.h), and the warp combines them by one instruction where it has that.
bool choose_row_of_warp(OptChoice& c) {
  const Ref reduce = only_free_sum(c);
  return reduce && c.is_part_of_tile() && outputs_left(c) == 1 && terms_left(reduce) == c.machine.warp_threads &&
         c.try_opt({OptKind::Group, c.id_of(axes_of_terms(reduce)[0]), c.machine.warp_threads});
}

// Words on chip are as near to all threads, so those of a warp share a sum rather than outputs: warps need not wait for
// each other then. A thread has neighbours, which it loads at once.
void choose_sum_within_warp(OptChoice& c) {
  const Ref reduce = only_free_sum(c);
  if (!reduce || reduce->op != Op::ReduceSum) return;
  const Refs nodes = toposort(reduce);
  if (std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::Load && size_of(n->dtype) != 4; }))
    return;
  const int64_t terms = terms_left(reduce), room = kSmallThreads / std::max<int64_t>(outputs_left(c), 1);
  const Ref axis = axes_of_terms(reduce)[0];
  const int64_t threads = threads_for(axis, std::min({c.machine.warp_threads, room, terms / kTermsOfThread})),
                neighbours = threads_for(axis, std::min<int64_t>(terms / threads, 4));
  if (threads <= 1) return;
  if (neighbours > 1 && !c.try_opt({OptKind::Unroll, c.id_of(axis), neighbours})) return;
  if (const Ref rest = only_free_sum(c)) c.try_opt({OptKind::Group, c.id_of(axes_of_terms(rest)[0]), threads});
}

// Blocks would make the same sums for other outputs along the axis: those belong into one.
bool repeats_sums(const OptChoice& c, Ref axis) {
  const Refs reductions = reductions_of(c.stores);
  return std::any_of(reductions.begin(), reductions.end(),
                     [&](Ref n) { return !depends_on(n, axis) && outputs_left(c, n) > 1; });
}

// Outputs along all axes but one, where sizes that vary are the greatest ones.
int64_t most_outputs(const OptChoice& c, Ref but = {}) {
  int64_t outputs = 1;
  for (Ref r : c.output_axes())
    if (r != but && kind_of(r) == RangeKind::Loop) outputs *= RangeView(r).most();
  return outputs;
}

// Outputs that blocks share out. Where a thread has nothing to sum up, a block of many is as fast as several of few, so
// that all axes count as long as they can be.
int64_t outputs_to_share(const OptChoice& c) {
  return reductions_of(c.stores).empty() ? most_outputs(c) : outputs_left(c);
}

// Each warp of a block makes all of its sums for itself, and other blocks could have them: many rows keep all
// processors busy with few warps each.
bool repeats_sums_of_many(const OptChoice& c, Ref axis) {
  return repeats_sums(c, axis) && most_outputs(c, axis) >= kManyRows * c.machine.processors;
}

bool is_read_along(Ref reduce, Ref axis, Ref other) {
  const Refs nodes = toposort(reduce);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    return n->op == Op::Load && n->dtype == DType::F32 && depends_on(LoadView(n).offset, axis) &&
           !depends_on(LoadView(n).offset, other);
  });
}

// Of a product of floats along two axes: of all blocks with as many outputs, one that is as long along both reads
// least. Powers of two, as many for the axis in front as are left by the other one. Returns whether it is one.
bool choose_square(OptChoice& c) {
  Refs axes = c.output_axes();
  std::erase_if(axes, [](Ref r) { return kind_of(r) != RangeKind::Loop; });
  if (axes.size() < 2) return false;
  const Ref x = axes[axes.size() - 2], y = axes.back();
  const Refs reductions = reductions_of(c.stores);
  const bool is_product = std::any_of(reductions.begin(), reductions.end(),
                                      [&](Ref n) { return is_read_along(n, x, y) && is_read_along(n, y, x); });
  if (!is_product) return false;
  const int64_t room = kSmallThreads / stride_of_threads(c.stores, y),
                most = std::min(room, outputs_left(c) / c.machine.tasks);
  int64_t side = 1;
  while (4 * side * side <= most) side *= 2;
  const auto x_id = c.id_of(x);
  return side > 1 && c.try_opt({OptKind::Local, c.id_of(y), threads_for(y, side)}) &&
         c.try_opt({OptKind::Local, x_id, threads_for(x, most / side)});
}

// Neighbours of a thread, where there are enough for all and no sum differs between them.
void choose_neighbours(OptChoice& c) {
  const Ref inner = innermost_loop(c);
  if (!inner) return;
  int64_t bytes = 1;
  for (Ref s : c.stores) bytes = std::max<int64_t>(bytes, size_of(StoreView(s).value->dtype));
  for (Ref reduce : reductions_of(c.stores))
    if (depends_on(reduce, inner)) return;
  const int64_t n = std::min<int64_t>(kNeighbourBytes / bytes, 4);
  if (n > 1 && known_divisor(RangeView(inner).size) % (n * c.machine.warp_threads) == 0)
    c.try_opt({OptKind::Upcast, c.id_of(inner), n});
}

Refs loads_of_halves(const Refs& stores) {
  Refs loads;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (n->op == Op::Load && size_of(n->dtype) == size_of(DType::BF16)) loads.push_back(n);
  return loads;
}

// Whether the nest puts halves on chip for the others of its tile, as they are.
bool are_halves_copied(const OptChoice& c) {
  return c.is_part_of_tile() && std::all_of(c.stores.begin(), c.stores.end(), [](Ref s) {
           const StoreView store(s);
           return store.buffer->op == Op::Local && store.value->op == Op::Load && !loads_of_halves({s}).empty();
         });
}

// Halves that lie side by side where they come from, though not on chip, where columns of a unit lie in pieces: a
// thread loads some of them at once.
void choose_copied_halves(OptChoice& c) {
  for (int64_t taken = size_of(DType::BF16); taken < kCopiedBytes;) {
    const Refs axes = c.output_axes(), loads = loads_of_halves(c.stores);
    const auto next = std::find_if(axes.begin(), axes.end(), [&](Ref axis) {
      const auto size = const_int(RangeView(axis).size);
      return kind_of(axis) == RangeKind::Loop && size && taken * *size <= kCopiedBytes &&
             std::all_of(loads.begin(), loads.end(), [&](Ref n) { return stride(LoadView(n).offset, axis) == taken; });
    });
    if (next == axes.end()) return;
    taken *= RangeView(*next).count();
    if (!c.try_opt({OptKind::Upcast, c.id_of(*next), RangeView(*next).count()})) return;
  }
}

// Axes whose neighbours are stored nearest to each other come first, so that threads side by side meet in no bank.
void sort_by_place_on_chip(const OptChoice& c, Refs& axes) {
  const Ref offset = StoreView(c.stores[0]).offset;
  std::stable_sort(axes.begin(), axes.end(), [&](Ref a, Ref b) {
    return stride(offset, a).value_or(INT64_MAX) < stride(offset, b).value_or(INT64_MAX);
  });
}

}  // namespace

int64_t greatest_divisor(Ref size, int64_t most) {
  int64_t n = std::min(known_divisor(size), most);
  while (n > 1 && known_divisor(size) % n != 0) --n;
  return std::max<int64_t>(n, 1);
}

int64_t outputs_left(const OptChoice& c, Ref value) {
  int64_t outputs = 1;
  for (Ref r : c.output_axes())
    if (kind_of(r) == RangeKind::Loop && (!value || depends_on(value, r)))
      outputs *= std::max<int64_t>(RangeView(r).size->min, 1);
  return outputs;
}

void choose_threads(OptChoice& c, bool is_local) {
  if (choose_row_of_warp(c)) return;
  const bool is_copied = are_halves_copied(c);
  if (is_copied) choose_copied_halves(c);
  if (is_local) choose_sum_within_warp(c);
  if (is_local) choose_neighbours(c);
  const Ref inner = innermost_loop(c);
  const int64_t lanes = inner ? threads_for(inner, c.machine.warp_threads) : 1;
  if (lanes > 1 && walk(c.stores, inner, c.machine.piece_bytes).scattered == 0)
    c.has_local = c.try_opt({OptKind::Local, c.id_of(inner), lanes});
  choose_dot(c);
  if (is_local) choose_neighbouring_terms(c);
  choose_group_of_threads(c, is_local);
  const bool is_shared_out = !is_local && !c.is_part_of_tile();
  if (is_shared_out && choose_square(c)) return;
  // What is left of a block: more outputs, whether they are neighbours or not, unless other blocks then had none.
  for (bool again = true; again;) {
    Refs axes = c.output_axes();
    std::reverse(axes.begin(), axes.end());
    if (is_copied) sort_by_place_on_chip(c, axes);
    again = std::any_of(axes.begin(), axes.end(), [&](Ref axis) {
      if (kind_of(axis) != RangeKind::Loop) return false;
      const int64_t stride = stride_of_threads(c.stores, axis);
      int64_t most = most_threads(c, is_local) / stride;
      if (is_shared_out && !repeats_sums(c, axis))
        most = std::min(most, std::max(outputs_to_share(c) / c.machine.tasks, c.machine.warp_threads / stride));
      if (is_shared_out && repeats_sums_of_many(c, axis)) most = std::min(most, kThreadsOfRow / stride);
      const int64_t n = greatest_divisor(RangeView(axis).size, most);
      return n > 1 && c.try_opt({OptKind::Local, c.id_of(axis), n});
    });
  }
}

}  // namespace smelt
