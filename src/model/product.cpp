#include "model/product.h"

#include <algorithm>

#include "graph/bounds.h"
#include "graph/operands.h"
#include "model/block_groups.h"

namespace smelt {
namespace {

Tensor f32(Tensor x) { return cast(x, DType::F32); }

// A number for each group, against its elements.
Tensor per_group(Tensor x) { return unsqueeze(x, x.rank()); }

}  // namespace

int64_t activation_block(int64_t k, int64_t most) {
  for (int64_t n = most; n >= 32; n /= 2)
    if (k % n == 0) return n;
  return 0;
}

Activations quantise_activations(Tensor x, const ActivationLayout& layout, ActivationBlocks of) {
  const int64_t k = x.size(-1), n = activation_block(k, of.most);
  if (n == 0) return {x, {}, {}};
  const Tensor blocks = with_last_axes(x, 1, {k / n, n});
  const Tensor greatest = max(maximum(blocks, -blocks), -1);
  const Tensor scale = place_numbers(greatest * (1.0 / 127), layout);
  const Tensor inverse = where(less(scalar(0), scale), scalar(1) / maximum(scale, scalar(1e-30)), scalar(0));
  const Tensor steps = cast(floor(blocks * per_group(inverse) + 0.5), DType::I8),
               q = layout.rows == 1 ? place(steps) : steps;
  const Tensor row = with_last_axes(q, 2, {k}), bytes = layout.rows == 1 ? row : place_bytes(row, layout);
  const bool is_short = !of.wide && n < ActivationBlocks().most && n == of.most;
  const auto sum_of_blocks = [&] { return sum(cast(with_last_axes(bytes, 1, {k / n, n}), DType::I32), -1); };
  return {x, bytes, scale, is_short ? place_numbers(sum_of_blocks(), layout) : Tensor(), layout, of.wide};
}

Activations halve_activations(Tensor x, const ActivationLayout& layout) {
  if (activation_block(x.size(-1)) == 0) return {x, {}, {}};
  Activations out{.x = x, .layout = layout};
  out.halves = place_halves(cast(x, DType::BF16), layout);
  return out;
}

Activations first_of(const Activations& x, int64_t n) {
  const auto first = [&](Tensor v, int64_t count) { return slice(v, -1, 0, count); };
  if (!x.q.ref()) return {first(x.x, n), {}, {}};
  const int64_t blocks = n * x.scale.size(-1) / x.x.size(-1);
  const Tensor sums = x.sums.ref() ? first(x.sums, blocks) : Tensor();
  return {first(x.x, n), first(x.q, n), first(x.scale, blocks), sums, x.layout, x.wide};
}

Activations rows_of(const Activations& x, Tensor rows) {
  const ActivationLayout layout{.rows = x.layout.rows, .axis = rows.rank() - 1};
  if (x.halves.ref()) {
    Activations out{.x = gather(x.x, rows), .layout = layout};
    out.halves = place_halves(gather(x.halves, rows), layout);
    return out;
  }
  if (!x.q.ref()) return {gather(x.x, rows), {}, {}};
  return {gather(x.x, rows),
          place_bytes(gather(x.q, rows), layout),
          place_rows(gather(x.scale, rows), layout),
          x.sums.ref() ? place_rows(gather(x.sums, rows), layout) : Tensor(),
          layout,
          x.wide};
}

namespace {

constexpr int64_t kDigits = 4;  // bytes of which products are summed by one instruction

// What is known of each group of a row of x: the sums of its elements, and what the integers stand for.
struct GroupSums {
  Tensor in;              // [..., 1, blocks, groups, elements]: integers i32, or the values
  Tensor total;           // [..., 1, blocks, groups]: their sums
  Tensor scale;           // f32, the same shape; none: the values themselves
  bool is_known = false;  // totals have a place
};

GroupSums in_groups(const Activations& x, bool integer, int64_t blocks, int64_t groups, int64_t elements) {
  const auto grouped = [&](Tensor v) { return with_last_axes(v, 1, {1, blocks, groups, elements}); };
  const Tensor in = grouped(integer ? cast(x.q, DType::I32) : x.x);
  if (!integer) return {in, sum(in, -1), {}};
  const bool is_block = x.sums.ref() && x.sums.size(-1) == blocks * groups;
  GroupSums g{in, is_block ? with_last_axes(x.sums, 1, {1, blocks, groups}) : sum(in, -1), {}, is_block};
  // The scale of a group is that of the block of activations it lies in.
  const Tensor scale = unsqueeze(x.scale, x.scale.rank());  // [..., k / n, 1]
  std::vector<Dim> wide(scale.shape().begin(), scale.shape().end());
  wide.back() = Dim(blocks * groups / x.scale.size(-1));
  g.scale = with_last_axes(expand(scale, wide), 2, {1, blocks, groups});
  return g;
}

// Signed bytes as unsigned ones: what instructions for sums of products of bytes take. Those of a table can have
// another table, where the least is zero; others become 128 greater.
Grouped with_unsigned(Grouped w) {
  if (w.q.dtype() != DType::I8) return w;
  if (w.q.ref()->op == Op::Lut) {
    std::vector<int64_t> table = w.q.ref()->arg.list;
    const int64_t least = *std::min_element(table.begin(), table.end());
    for (int64_t& value : table) value -= least;
    return {lut(Tensor(operand_of(w.q.ref())), std::move(table), DType::U8), w.scale, static_cast<int>(-least), {}};
  }
  w.q = bitcast(w.q, DType::U8) ^ 128;
  w.zero += 128;
  return w;
}

// sum(steps[g] * total[g]) over the groups of each block of activations, as sums of products of bytes: a total of up to
// 126 elements is 128 * high + low. [..., rows, blocks of activations]
Tensor sum_of_steps(Tensor steps, Tensor total, int64_t blocks, int64_t groups, const ActivationLayout& layout) {
  const auto grouped = [&](Tensor v) { return with_last_axes(v, 2, {blocks, groups}); };
  const Tensor high = (total + 64) >> 7, low = total - high * 128;
  const auto dot = [&](Tensor digit) {
    const Tensor bytes = place_rows(cast(digit, DType::I8), layout, kDigits);
    return sum(cast(grouped(steps), DType::I32) * cast(grouped(bytes), DType::I32), -1);
  };
  return dot(low) + dot(high) * 128;
}

// Between which numbers the elements of an integer tensor are.
Bounds bounds_of_elements(Ref x) {
  if (class_of(x->op) == OpClass::move) return bounds_of_elements(operand_of(x));
  if (!is_elementwise(x->op) || x->op == Op::Bitcast || !is_int(x->dtype)) return {x->min, x->max};
  std::vector<Bounds> src;
  for (Ref s : x->src) src.push_back(bounds_of_elements(s));
  return bounds_of(x->op, x->dtype, x->arg, src);
}

// The greatest of the last axis, written out: what is made of it is no sum over others.
Tensor greatest_of(Tensor x) {
  Tensor greatest = slice(x, -1, 0, 1);
  for (int64_t i = 1; i < x.size(-1); ++i) greatest = maximum(greatest, slice(x, -1, i, 1));
  return greatest;
}

// Groups of n elements with a scale for all of them, whose integers are bytes around 128 (Activations::wide). The scale
// is a 127th of what the greatest value of the block can be; values in 256ths of it are what a product of 16 bits is.
// Integers of `w` are unsigned. As they are where groups are no shorter than that.
Grouped in_wide_groups(const Grouped& w, int64_t n) {
  const int64_t elements = w.q.size(-1), k = elements * w.q.size(-2) * w.q.size(-3), each = n / elements;
  if (elements >= n) return w;
  const auto regrouped = [&](Tensor x) { return with_last_axes(x, 2, {k / n, each}); };
  Bounds q = bounds_of_elements(w.q.ref());
  q.max = std::min(q.max, w.most);
  const Tensor scale = regrouped(w.scale), minimum = w.minimum.ref() ? regrouped(w.minimum) : Tensor();
  const auto magnitude_at = [&](int64_t integer) {
    const Tensor value = scale * static_cast<double>(integer - w.zero), all = minimum.ref() ? value - minimum : value;
    return maximum(all, -all);
  };
  const Tensor greatest = greatest_of(maximum(magnitude_at(q.min), magnitude_at(q.max)));  // [..., k / n, 1]
  const Tensor steps =
      where(less(scalar(0), greatest), scalar(127.0 * 256) / maximum(greatest, scalar(1e-30)), scalar(0));
  const auto in_steps = [&](Tensor x) { return cast(floor(x * steps + 0.5), DType::I32); };
  const Tensor factor = in_steps(scale);
  Tensor base = factor * static_cast<double>(-w.zero) + (128.0 * 256 + 128);
  if (minimum.ref()) base = base - in_steps(minimum);
  const auto of_16_bits = [](Tensor x) { return per_group(cast(x, DType::U16)); };
  const Tensor integers = cast(with_last_axes(w.q, 3, {k / n, each, elements}), DType::U16);
  const Tensor bytes = cast((integers * of_16_bits(factor) + of_16_bits(base)) >> 8, DType::U8);
  return {.q = with_last_axes(bytes, 2, {1, n}), .scale = greatest * (1.0 / 127), .zero = 128};
}

// Groups that are longer than n, cut into groups of n elements with the same scale. They have no steps.
Grouped in_short_groups(Grouped w, int64_t n) {
  const int64_t elements = w.q.size(-1), groups = w.q.size(-2), blocks = w.q.size(-3), parts = elements / n;
  if (parts <= 1 || elements % n != 0) return w;
  const auto repeated = [&](Tensor x) {
    std::vector<Dim> wide(x.shape().begin(), x.shape().end());
    wide.emplace_back(parts);
    return with_last_axes(expand(unsqueeze(x, x.rank()), wide), 3, {blocks, groups * parts});
  };
  w.q = with_last_axes(w.q, 3, {blocks, groups * parts, n});
  w.scale = repeated(w.scale);
  if (w.minimum.ref()) w.minimum = repeated(w.minimum);
  return w;
}

// A number of each block of weights for each of the `n` blocks of activations in it.
Tensor for_activations(Tensor x, int64_t blocks, int64_t n) {
  std::vector<Dim> wide(x.shape().begin(), x.shape().end());
  wide.back() = Dim(n);
  return with_last_axes(expand(x, wide), 2, {blocks * n});
}

Tensor rounded(Tensor x) { return f32(cast(x, DType::BF16)); }

// Of a product by the unit of a warpgroup: what a task has, and the terms of a row that it goes over at a time.
constexpr int64_t kRowsOfTask = 128, kTokensOfTask = 64, kStep = 32, kMostSteps = 4, kFewestSteps = 3;

// Whether a sum of k terms has rounds enough that one can be on its way while another is multiplied, and long ones.
bool has_rounds(int64_t k) {
  int64_t steps = kMostSteps;
  while (steps > 1 && k % (steps * kStep) != 0) --steps;
  return steps >= kFewestSteps && k >= 2 * steps * kStep;
}

// Into how many parts sums over the last axis are cut, as whole blocks of weights, so that there are up to `tasks`.
// terms [..., rows, k]
int64_t parts_of_sums(Tensor terms, int64_t block, int64_t tasks) {
  if (tasks == 0) return 1;
  const int64_t k = terms.size(-1);
  int64_t sums = 1;
  for (int axis = 0; axis + 1 < terms.rank(); ++axis) sums *= terms.size(axis);
  int64_t parts = tasks / std::max<int64_t>(sums / (kRowsOfTask * kTokensOfTask), 1);
  while (parts > 1 && (k % (parts * block) != 0 || !has_rounds(k / parts))) --parts;
  return std::max<int64_t>(parts, 1);
}

// [..., k] summed up in parts that lie behind each other in memory: what reads the sums adds them up.
Tensor sum_of_parts(Tensor terms, int64_t parts) {
  const Tensor part = sum(with_last_axes(terms, 1, {parts, terms.size(-1) / parts}), -1);  // [..., parts]
  std::vector<int> order(static_cast<size_t>(part.rank()));
  order[0] = part.rank() - 1;
  for (int axis = 1; axis < part.rank(); ++axis) order[static_cast<size_t>(axis)] = axis - 1;
  return sum(place(permute(part, order)), 0);
}

// Each number that a block stands for, in bf16, times the one of x. What is rounded before is multiplied exactly:
// threads make words of packed bytes step by step in bf16, vectors make floats and round once.
Tensor product_of_halves(const Activations& x, const Grouped& w) {
  const bool in_steps = x.layout.rows > 1;
  const auto step = [&](Tensor y) { return in_steps ? rounded(y) : y; };
  Tensor values = f32(w.q);
  if (w.zero) values = values - static_cast<double>(w.zero);
  values = step(values * per_group(step(w.scale)));
  if (w.minimum.ref()) values = step(values - per_group(step(w.minimum)));
  const int64_t k = x.halves.size(-1);
  const Tensor row = with_last_axes(in_steps ? values : rounded(values), 3, {k}),
               terms = row * f32(unsqueeze(x.halves, x.halves.rank() - 1));
  const int64_t parts = parts_of_sums(terms, w.q.size(-1) * w.q.size(-2), x.tasks);
  return parts > 1 ? sum_of_parts(terms, parts) : sum(terms, -1);
}

}  // namespace

// Within a group the sum is one of integers when the activations are; scales and minima stay outside, where there is
// one of each per group:
//   y[n] = sum over g of scale[n, g] * (dot(q[n, g], x[g]) - zero * sum(x[g])) - minimum[n, g] * sum(x[g])
// and what the integers of x stand for multiplies all of that, once for each of its blocks a. Minima that are steps of
// a block make one more sum of integers for each of these:
//   y[n] = sum over a of x.scale[a] * (sum over g of scale[n, g] * dot(q[n, g], x[g])
//                                      - step[n] * sum over g of steps[n, g] * sum(x[g]))
Tensor product(const Activations& x, Tensor raw, GgufType type, WeightLayout layout) {
  Grouped w = groups_of(raw, type, layout);
  if (is_plain(type)) return sum(unsqueeze(x.x, x.x.rank() - 1) * with_last_axes(w.q, 2, {w.q.size(-1)}), -1);
  const bool is_signed = w.q.dtype() == DType::I8 && w.q.ref()->op != Op::Lut && w.zero == 0;
  if (x.halves.ref()) return product_of_halves(x, is_signed ? w : with_unsigned(w));
  const int64_t k = w.q.size(-3) * w.q.size(-2) * w.q.size(-1);
  const int64_t together = x.q.ref() ? k / x.scale.size(-1) : 0;
  if (together && !w.steps.ref()) w = in_short_groups(w, together);
  const bool integer = x.q.ref() && together % w.q.size(-1) == 0;
  if (integer) w = with_unsigned(w);
  if (integer && x.wide) w = in_wide_groups(w, together);
  const int64_t blocks = w.q.size(-3), groups = w.q.size(-2), elements = w.q.size(-1);
  const GroupSums g = in_groups(x, integer, blocks, groups, elements);
  Tensor dot = sum(cast(w.q, integer ? DType::I32 : DType::F32) * g.in, -1);  // [..., rows, blocks, groups]
  if (integer && w.steps.ref() && together / elements % kDigits == 0) {
    const int64_t n = together / elements, all = blocks * groups / n;
    const Tensor scaled = sum(with_last_axes(w.scale * f32(dot), 2, {all, n}), -1),
                 step = for_activations(w.step, blocks, groups / n),
                 minima = step * f32(sum_of_steps(w.steps, g.total, all, n, x.layout));
    return sum((scaled - minima) * unsqueeze(x.scale, x.scale.rank() - 1), -1);
  }
  Tensor minimum = w.minimum;
  const auto placed = [&](Tensor totals) { return g.is_known ? totals : place_rows(totals, x.layout); };
  if (w.zero && integer) dot = dot + placed(g.total * static_cast<double>(-w.zero));
  if (w.zero && !integer) {
    const Tensor shift = w.scale * static_cast<double>(w.zero);
    minimum = minimum.ref() ? minimum + shift : shift;
  }
  Tensor term = w.scale * f32(dot);
  if (minimum.ref()) term = term - minimum * placed(f32(g.total));
  if (integer) term = term * g.scale;
  return sum(with_last_axes(term, 2, {blocks * groups}), -1);
}

}  // namespace smelt
