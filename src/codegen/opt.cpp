#include "codegen/opt.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

#include "base/ensure.h"
#include "codegen/block_threads.h"
#include "codegen/matrix_fragments.h"
#include "codegen/matrix_halves.h"
#include "codegen/matrix_rows.h"
#include "codegen/packed_bytes.h"
#include "codegen/panel.h"
#include "codegen/sum_order.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr std::array<std::string_view, kOptKinds> kNames{"local", "group", "upcast", "unroll", "dot",  "matrix",
                                                         "pack",  "split", "front",  "task",   "panel"};

const Ref& widest(const Refs& stores) {
  return *std::max_element(stores.begin(), stores.end(), [](Ref a, Ref b) { return a->src.size() < b->src.size(); });
}

bool wants_output_axis(OptKind kind) {
  return kind == OptKind::Local || kind == OptKind::Upcast || kind == OptKind::Matrix || kind == OptKind::Pack ||
         kind == OptKind::Front || kind == OptKind::Task || kind == OptKind::Panel;
}

bool wants_reduce_axis(OptKind kind) {
  return kind == OptKind::Group || kind == OptKind::Unroll || kind == OptKind::Dot;
}

RangeKind inner_kind(OptKind kind, RangeKind plain) {
  switch (kind) {
    case OptKind::Local:
    case OptKind::Group: return RangeKind::Lane;
    case OptKind::Upcast:
    case OptKind::Unroll: return RangeKind::Unroll;
    case OptKind::Dot:
    case OptKind::Pack: return RangeKind::Byte;
    case OptKind::Matrix: return RangeKind::MatrixRow;
    default: return plain;
  }
}

// Reductions that run over `range`.
Refs reductions_over(const Refs& stores, Ref range) {
  Refs found;
  for (Ref s : stores)
    for (Ref n : toposort(s))
      if (is_reduce(n->op) && contains(ReduceView(n).ranges, range)) found.push_back(n);
  return found;
}

bool stores_words(Ref store) { return bool(first_of_kind(StoreView(store).ranges, RangeKind::Byte)); }

// Why values along the range cannot be in lanes, of whatever level.
std::string why_not_side_by_side(const Refs& stores, Ref range) {
  for (Ref n : reductions_over(stores, range))
    if (n->op != Op::ReduceSum && n->op != Op::ReduceMax)
      return "lanes of a " + std::string(name_of(n->op)) + " are not combined";
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op == Op::TopK && depends_on(n, range)) return "a topk takes one element at a time";
      if (n->op == Op::Range && depends_on(RangeView(n).size, range))
        return "a loop inside has another length for each lane";
    }
  return "";
}

bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

// A float sum keeps its order: only its partial sums may be side by side, so many that halves are left to combine.
// Those along the last of their ranges are combined last, so they are the first to be side by side.
std::string why_not_group(const Refs& stores, const Opt& opt, Ref range) {
  if (opt.kind != OptKind::Group) return "";
  if (is_partial(range)) {
    for (Ref n : reductions_over(stores, range))
      if (last_partials(n) != range)
        return "partial sums along another axis are combined after those of axis " + to_string(opt.axis);
    if (is_power_of_two(opt.amount) || is_const(RangeView(range).size, opt.amount)) return "";
    return std::to_string(opt.amount) + " partial sums are neither a power of two nor all of them";
  }
  for (Ref n : reductions_over(stores, range))
    if (has_order(n)) return "axis " + to_string(opt.axis) + " is not one of partial sums, and a sum keeps its order";
  return "";
}

// Terms that are written out come one after the other, so no loop may be left inside of theirs.
std::string why_not_unroll(const Refs& stores, const Opt& opt, Ref range) {
  for (Ref n : reductions_over(stores, range)) {
    if (n->op == Op::TopK) return "a topk takes one element at a time";
    if (n->op == Op::SoftmaxSum) return "an online softmax takes one element at a time, and keeps its order";
    if (!has_order(n)) continue;
    const Refs ranges = own_ranges(n);
    const auto inner = std::find(ranges.begin(), ranges.end(), range) + 1;
    if (std::any_of(inner, ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Reduce; }))
      return "a loop inside axis " + to_string(opt.axis) + " is not written out, and a sum keeps its order";
  }
  return "";
}

std::string why_not_threads(const Refs& stores, const Opt& opt, Ref range, const LaneRules& rules) {
  if (std::string reason = why_not_side_by_side(stores, range); !reason.empty()) return reason;
  if (std::string reason = why_not_group(stores, opt, range); !reason.empty()) return reason;
  if (stride_of_threads(stores, range) * opt.amount <= rules.block_threads) return "";
  return "a block has at most " + std::to_string(rules.block_threads) + " threads";
}

std::string why_not_vector(const Refs& stores, const Opt& opt, Ref range) {
  for (Ref n : reductions_over(stores, range))
    if (varies_in_lanes(n)) return "the reduction already has lanes";
  if (std::string reason = why_not_side_by_side(stores, range); !reason.empty()) return reason;
  if (opt.kind != OptKind::Local) return why_not_group(stores, opt, range);
  for (Ref s : stores)
    for (Ref r : ranges_of(s))
      if (kind_of(r) == RangeKind::Lane) return "the nest already has lanes";
  for (Ref s : stores) {
    const StoreView store(s);
    if (depends_on(s, range) && stride(store.offset, range) != (stores_words(s) ? 4 : size_of(store.value->dtype)))
      return "neighbours along axis " + to_string(opt.axis) + " are not stored side by side";
  }
  return "";
}

std::string axis_text(const Opt& opt, Ref size) {
  const auto n = const_int(size);
  return "axis " + to_string(opt.axis) + " of " + (n ? std::to_string(*n) : "symbolic size");
}

Refs with_kind(const Refs& stores, Ref range, RangeKind kind) {
  const Ref changed = with_kind(range, kind);
  Refs out;
  for (Ref s : stores) out.push_back(replace_range(s, range, {changed}, changed));
  return out;
}

Refs move_to_front(const Refs& stores, Ref range) {
  Refs out;
  for (Ref s : stores) {
    Refs ranges = own_ranges(s);
    const auto it = std::find(ranges.begin(), ranges.end(), range);
    if (it != ranges.end()) std::rotate(ranges.begin(), it, it + 1);
    out.push_back(with_ranges(s, ranges));
  }
  return out;
}

// A range in two.
struct Cut {
  Refs parts;  // the outer one first; only the inner one where that is all
  Ref index;   // what the range was
};

Cut cut_in_two(Ref range, Ref inner) {
  const RangeView whole(range), part(inner);
  const Ref rest = simplify(whole.size / part.size);
  if (is_const(rest, 1)) return {{inner}, inner};
  const Ref outer = make_range(outer_part(whole.number), rest, whole.kind);
  return {{outer, inner}, outer * part.size + inner};
}

int64_t inner_number(Ref range) { return inner_part(RangeView(range).number); }

Refs cut(const Refs& stores, Ref range, const Cut& c) {
  Refs out;
  for (Ref s : stores) out.push_back(replace_range(s, range, c.parts, c.index));
  return out;
}

// The inner part is of the kind that the option makes.
Refs cut(const Refs& stores, Ref range, const Opt& opt, const LaneRules& rules) {
  const RangeKind kind = inner_kind(opt.kind, kind_of(range));
  const Ref amount = constant(opt.amount);
  const Ref inner = kind == RangeKind::Lane && rules.are_threads()
                        ? make_thread_range(inner_number(range), amount, stride_of_threads(stores, range))
                        : make_range(inner_number(range), amount, kind);
  return cut(stores, range, cut_in_two(range, inner));
}

bool has_matrix_rows(const Refs& stores) {
  return std::any_of(stores.begin(), stores.end(),
                     [](Ref s) { return static_cast<bool>(first_of_kind(StoreView(s).ranges, RangeKind::MatrixRow)); });
}

// Threads pass their sums to each other on chip, and a matrix unit leaves its rows there: more threads or more copies
// of a sum take more of it.
bool takes_room(const Refs& stores, const Opt& opt, const LaneRules& rules) {
  return rules.on_chip.bytes > 0 && (rules.are_threads() || opt.kind == OptKind::Matrix || has_matrix_rows(stores));
}

std::string why_not_on_chip(const Refs& after, const LaneRules& rules) {
  const int64_t passed_on = rules.are_threads() ? exchange_bytes(after, threads_of(after)) : matrix_row_bytes(after);
  return why_too_much_on_chip(bytes_on_chip(after) + passed_on, rules.on_chip);
}

// Partial results are combined when all loops are done.
Ref with_partials_last(Ref store, Ref partials) {
  return rebuild(store, [&](Ref, Ref n) {
    if (!is_reduce(n->op) || !contains(ReduceView(n).ranges, partials)) return n;
    Refs ranges = own_ranges(n);
    std::erase(ranges, partials);
    ranges.push_back(partials);
    return with_ranges(n, ranges);
  });
}

// Every reduction over the range must have been a sum of products of bytes.
std::string why_not_dot(const Refs& after, const Opt& opt) {
  bool found = false;
  for (Ref s : after)
    for (Ref n : toposort(s)) {
      if (!is_reduce(n->op)) continue;
      const ReduceView reduce(n);
      const Refs bytes = all_of_kind(reduce.ranges, RangeKind::Byte);
      if (bytes.empty()) continue;
      if (bytes.size() > 1) return "the reduction has an axis of bytes";
      if (n->op != Op::ReduceSum || !packed_dot(reduce.values[0], bytes[0]))
        return "axis " + to_string(opt.axis) + " is not one of sums of products of bytes";
      found = true;
    }
  return found ? "" : "no reduction is left over axis " + to_string(opt.axis);
}

// Every store must have become one of bytes side by side.
std::string why_not_pack(const Refs& after, const Opt& opt) {
  for (Ref s : after) {
    const StoreView store(s);
    const Ref bytes = first_of_kind(store.ranges, RangeKind::Byte);
    if (!bytes || stride(store.offset, bytes) != 1 || !word_to_store(store.value, bytes))
      return "axis " + to_string(opt.axis) + " is not one of bytes side by side";
  }
  return "";
}

// At least one sum must have become a row of a matrix.
std::string why_not_matrix(const Refs& after, const Opt& opt, const LaneRules& rules) {
  const MatrixUnit& unit = rules.unit;
  if (rules.halves.m && !rules.halves.loads_operands && why_no_halves(after).empty()) return "";
  if (!unit.loads_operands) return why_no_fragments(after, unit);
  if (opt.amount > unit.m) return "a matrix has at most " + std::to_string(unit.m) + " rows";
  std::string reason;
  matrix_products(after, rules, &reason);
  return reason;
}

}  // namespace

std::string to_string(const Opt& opt) {
  std::string text(kNames[static_cast<size_t>(opt.kind)]);
  text += "(" + to_string(opt.axis);
  if (opt.amount) text += "," + std::to_string(opt.amount);
  return text + ")";
}

std::string to_string(const std::vector<Opt>& opts) {
  std::string text;
  for (const Opt& o : opts) text += (text.empty() ? "" : " ") + to_string(o);
  return text;
}

Result<std::vector<Opt>> parse_opts(std::string_view text) {
  std::vector<Opt> opts;
  while (true) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
    if (text.empty()) return opts;
    const size_t open = text.find('('), close = text.find(')');
    const auto bad = [&] {
      return Error{"[opt] " + std::string(text.substr(0, 40)) + ": expected name(axis) or name(axis,amount)"};
    };
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return bad();
    const auto name = std::find(kNames.begin(), kNames.end(), text.substr(0, open));
    if (name == kNames.end()) return bad();
    Opt opt{.kind = static_cast<OptKind>(name - kNames.begin())};
    const char* end = text.data() + close;
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    const size_t comma = inside.find(',');
    const auto axis = parse_range_id(inside.substr(0, comma));
    if (!axis) return bad();
    opt.axis = *axis;
    const bool has_amount = comma != std::string_view::npos;
    if (has_amount && std::from_chars(inside.data() + comma + 1, end, opt.amount).ptr != end) return bad();
    opts.push_back(opt);
    text.remove_prefix(close + 1);
  }
}

int64_t copies_of(Ref reduce) {
  int64_t copies = 1;
  std::unordered_set<const Node*> bound;
  for (Ref n : toposort(reduce))
    if (is_reduce(n->op))
      for (Ref r : ReduceView(n).ranges) bound.insert(r.get());
  for (Ref r : ranges_of(reduce))
    if (!bound.contains(r.get()) && (is_copies(r) || is_partial(r))) copies *= RangeView(r).count();
  return copies;
}

bool varies_in_lanes(Ref value) {
  const Refs ranges = ranges_of(value);
  return std::any_of(ranges.begin(), ranges.end(), [](Ref r) { return kind_of(r) == RangeKind::Lane; });
}

Refs axes_of(const Refs& stores) {
  Refs axes = own_ranges(widest(stores));
  std::unordered_set<const Node*> seen;
  for (Ref r : axes) seen.insert(r.get());
  Refs reduce;
  for (Ref s : stores)
    for (Ref r : ranges_of(s))
      if (seen.insert(r.get()).second) reduce.push_back(r);
  std::sort(reduce.begin(), reduce.end(), [](Ref a, Ref b) {
    const int64_t x = range_order(RangeView(a).number), y = range_order(RangeView(b).number);
    return x != y ? x < y : structurally_less(a, b);
  });
  axes.insert(axes.end(), reduce.begin(), reduce.end());
  return axes;
}

RangeId id_of(const Refs& stores, Ref axis) {
  RangeId id{.number = RangeView(axis).number};
  for (Ref r : axes_of(stores)) {
    if (r == axis) return id;
    if (RangeView(r).number == id.number) ++id.among;
  }
  return id;
}

Ref axis_of(const Refs& stores, RangeId id) {
  for (Ref r : axes_of(stores))
    if (RangeView(r).number == id.number && id.among-- == 0) return r;
  return Ref();
}

bool is_output_axis(const Refs& stores, Ref range) { return contains(own_ranges(widest(stores)), range); }

static std::string names_of_axes(const Refs& stores) {
  std::string text;
  for (Ref axis : axes_of(stores)) text += (text.empty() ? "" : " ") + to_string(id_of(stores, axis));
  return text.empty() ? "none" : text;
}

namespace {

// What can be said of options that leave the loops as they are, besides what holds for all.
std::string why_not_task(const Refs& stores, const Opt& opt, Ref range) {
  for (Ref s : stores) {
    const Refs ranges = own_ranges(s);
    if (first_of_kind(ranges, RangeKind::Tile)) return "the nest is part of a tile";
    const auto it = std::find(ranges.begin(), ranges.end(), range);
    if (it == ranges.end()) return "a store of the nest has no such loop";
    if (std::any_of(ranges.begin(), it, [](Ref r) { return kind_of(r) == RangeKind::Loop; }))
      return "axis " + to_string(opt.axis) + " is inside a serial loop";
  }
  return "";
}

std::string why_not_axis(const Refs& stores, const Opt& opt, Ref range) {
  const bool output = is_output_axis(stores, range);
  if (wants_output_axis(opt.kind) && !output) return "axis " + to_string(opt.axis) + " is not an output axis";
  if (wants_reduce_axis(opt.kind) && output) return "axis " + to_string(opt.axis) + " is not a reduction axis";
  const bool fits_kind = is_serial(range) || (opt.kind == OptKind::Front && kind_of(range) == RangeKind::Task) ||
                         (opt.kind == OptKind::Group && is_partial(range));
  if (!fits_kind && is_partial(range))
    return "axis " + to_string(opt.axis) + " is one of partial sums, which only group takes";
  return fits_kind ? "" : "axis " + to_string(opt.axis) + " is already taken";
}

// What the stores say before the axis is cut.
std::string why_not_cut(const Refs& stores, const Opt& opt, Ref range, const LaneRules& rules) {
  const RangeView axis(range);
  if (opt.amount < 2) return "the amount must be 2 or more";
  if (!has_parts(axis.number)) return "axis " + to_string(opt.axis) + " was divided too often";
  if (known_divisor(axis.size) % opt.amount != 0)
    return std::to_string(opt.amount) + " does not divide " + axis_text(opt, axis.size);
  switch (opt.kind) {
    case OptKind::Unroll: return why_not_unroll(stores, opt, range);
    case OptKind::Local:
    case OptKind::Group:
      return rules.are_threads() ? why_not_threads(stores, opt, range, rules) : why_not_vector(stores, opt, range);
    case OptKind::Dot:
    case OptKind::Pack:
      if (opt.amount != 4) return "a word has 4 bytes";
      if (opt.kind == OptKind::Pack && std::any_of(stores.begin(), stores.end(), stores_words))
        return "the nest has an axis of bytes";
      return "";
    default: return "";
  }
}

// What can only be said of what the stores have become.
std::string why_not_as_cut(const Refs& stores, const Refs& after, const Opt& opt, const LaneRules& rules) {
  std::string reason;
  if (opt.kind == OptKind::Matrix) reason = why_not_matrix(after, opt, rules);
  if (opt.kind == OptKind::Dot) reason = why_not_dot(after, opt);
  if (opt.kind == OptKind::Pack) reason = why_not_pack(after, opt);
  return reason.empty() && takes_room(stores, opt, rules) ? why_not_on_chip(after, rules) : reason;
}

OptResult refused(const Opt& opt, const std::string& reason) {
  return {.why_not = std::string(kNames[static_cast<size_t>(opt.kind)]) + ": " + reason};
}

}  // namespace

OptResult try_opt(const Refs& stores, const Opt& opt, const LaneRules& rules) {
  const Ref range = axis_of(stores, opt.axis);
  if (!range) return refused(opt, "there is no axis " + to_string(opt.axis) + " among " + names_of_axes(stores));
  if (std::string reason = why_not_axis(stores, opt, range); !reason.empty()) return refused(opt, reason);
  if (opt.kind == OptKind::Front) return {move_to_front(stores, range)};
  if (opt.kind == OptKind::Panel) {
    const std::string reason = why_not_panel(stores, opt, rules.on_chip);
    return reason.empty() ? OptResult{with_panel(stores, opt, 0).main} : refused(opt, reason);
  }
  if (opt.kind == OptKind::Task) {
    const std::string reason = why_not_task(stores, opt, range);
    return reason.empty() ? OptResult{with_kind(stores, range, RangeKind::Task)} : refused(opt, reason);
  }
  if (std::string reason = why_not_cut(stores, opt, range, rules); !reason.empty()) return refused(opt, reason);
  Refs after = cut(stores, range, opt, rules);
  if (std::string reason = why_not_as_cut(stores, after, opt, rules); !reason.empty()) return refused(opt, reason);
  return {std::move(after)};
}

std::string why_not(const Refs& stores, const Opt& opt, const LaneRules& rules) {
  return try_opt(stores, opt, rules).why_not;
}

Refs apply_opt(const Refs& stores, const Opt& opt, const LaneRules& rules) {
  OptResult result = try_opt(stores, opt, rules);
  ENSURE(result, result.why_not);
  return std::move(result.stores);
}

std::string why_no_partials(const Refs& stores, Ref range, const LaneRules& rules) {
  for (Ref n : rules.are_threads() ? Refs{} : reductions_over(stores, range))
    for (Ref r : ranges_of(n))
      if (is_partial(r) && depends_on(n, r)) return "the reduction already has partial results";
  return why_not_side_by_side(stores, range);
}

Ref last_partials(Ref reduce) {
  const Refs ranges = own_ranges(reduce);
  const auto last = std::find_if(ranges.rbegin(), ranges.rend(), is_partial);
  return last == ranges.rend() ? Ref() : *last;
}

Refs in_partials(const Refs& stores, Ref range, int64_t count) {
  const Cut c = cut_in_two(range, make_range(inner_number(range), constant(count), RangeKind::Partial));
  Refs out;
  for (Ref s : stores) out.push_back(with_partials_last(replace_range(s, range, c.parts, c.index), c.parts.back()));
  return out;
}

Refs apply_opts(Refs stores, const std::vector<Opt>& opts, const LaneRules& rules) {
  for (const Opt& opt : opts) stores = apply_opt(stores, opt, rules);
  return stores;
}

}  // namespace smelt
