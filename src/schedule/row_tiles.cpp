#include "schedule/row_tiles.h"

#include <algorithm>
#include <set>
#include <vector>

#include "graph/index_sum.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr double kMostFactorBytes = 1 << 10;  // what a sum reads that does not depend on the row: more is a matrix
constexpr int64_t kRowsOfMatrix = 4;          // times what a row has: a matrix of its own, such as that of a head

// Bytes that a load reads for one row.
double bytes_read(Ref load, Ref rows) {
  double bytes = size_of(load->dtype);
  for (Ref r : ranges_of(LoadView(load).offset))
    if (r != rows) bytes *= static_cast<double>(std::max<int64_t>(RangeView(r).size->max, 1));
  return bytes;
}

// Whether each row reads a part of its own: not what an index says, and not the same as other rows.
bool is_of_row(Ref load, Ref rows) {
  const Ref offset = LoadView(load).offset;
  const Refs nodes = toposort(offset);
  if (std::any_of(nodes.begin(), nodes.end(), [&](Ref n) { return n->op == Op::Load && depends_on(n, rows); }))
    return false;
  const auto at = [&](int64_t row) { return substitute(offset, {{rows, constant(row)}}); };
  return !is_const(simplify(at(1) - at(0)), 0);
}

// Whether a sum multiplies with a matrix: that of all rows, or one that the row chooses by an index. A sum that is the
// same for all rows does not.
bool reads_matrix(Ref sum, Ref rows) {
  if (!depends_on(sum, rows)) return false;
  const Refs nodes = toposort(sum);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    return n->op == Op::Load && !is_of_row(n, rows) && bytes_read(n, rows) > kMostFactorBytes;
  });
}

// Where an offset lies in its row: each term in whole steps is of pieces, the others within one. Nothing where that is
// another row, or between pieces.
std::optional<IndexSum> within_row(Ref offset, const BufferRow& row, int64_t size) {
  const auto all = index_sum(offset), begin = index_sum(row.begin);
  const auto rest = all && begin ? add(*all, *begin, -1) : std::nullopt;
  if (!rest) return std::nullopt;
  IndexSum pieces, within{.constant = rest->constant};
  for (const IndexTerm& term : rest->terms) {
    const bool is_of_pieces = row.pieces > 1 && term.times % row.step == 0;
    if (is_of_pieces)
      pieces.terms.push_back({term.product, term.times / row.step * row.piece_bytes});
    else
      within.terms.push_back(term);
  }
  if (row.pieces > 1 && within.constant >= row.step) {
    pieces.constant = within.constant / row.step * row.piece_bytes;
    within.constant %= row.step;
  }
  const auto is_within = [](const IndexSum& sum, int64_t end) { return min_of(sum) >= 0 && max_of(sum) <= end; };
  if (!is_within(within, row.piece_bytes - size) || !is_within(pieces, row.bytes() - row.piece_bytes))
    return std::nullopt;
  return add(pieces, within);
}

// How many of `rows` the first loops of a store share out: all, or as many as each iteration of a first loop of
// symbolic size has. Nothing where the first loop is one over these rows, or they do not go into each other.
std::optional<int64_t> rows_to_share(Ref first, Ref rows) {
  if (first == rows) return std::nullopt;
  if (const auto count = const_int(rows)) return count;
  if (const_int(first)) return std::nullopt;
  const int64_t each = rows->max / std::max<int64_t>(first->max, 1);
  return simplify(first * each) == rows ? std::optional(each) : std::nullopt;
}

}  // namespace

Ref loop_over_rows(Ref node, int64_t most_bytes, int64_t least_rows) {
  const StoreView store(node);
  if (store.ranges.empty()) return Ref();
  const Ref rows = store.ranges.front();
  const RangeView range(rows);
  const auto count = const_int(range.size);
  const bool are_rows = count ? least_rows > 0 && *count >= least_rows : range.number == output_range(0);
  if (!are_rows || range.kind != RangeKind::Loop) return Ref();
  for (Ref n : toposort(store.value)) {
    if (n->op != Op::Load) continue;
    const int64_t most = count && is_of_row(n, rows) ? kRowsOfMatrix * most_bytes : most_bytes;
    if (bytes_read(n, rows) > static_cast<double>(most)) return Ref();
  }
  return multiplies_with_matrix(node) ? Ref() : rows;
}

bool multiplies_with_matrix(Ref node) {
  const StoreView store(node);
  const Refs nodes = toposort(store.value);
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](Ref n) { return is_reduce(n->op) && reads_matrix(n, store.ranges.front()); });
}

// The same store with another range as its first.
Ref with_first(Ref node, Ref range) {
  const StoreView store(node);
  const Replacements by{{store.ranges.front(), range}};
  Refs ranges(store.ranges.begin(), store.ranges.end());
  ranges.front() = range;
  return make_store(store.buffer, substitute(store.offset, by), substitute(store.value, by), ranges);
}

Ref in_rows_of(Ref node, Ref rows) {
  const StoreView store(node);
  if (store.ranges.empty()) return node;
  if (RangeView(store.ranges.front()).size == RangeView(rows).size)
    return with_first(node, make_range(RangeView(rows).number, RangeView(rows).size, RangeKind::Loop));
  const auto count = rows_to_share(RangeView(store.ranges.front()).size, RangeView(rows).size);
  if (!count) return node;
  int64_t all = 1;
  size_t leading = const_int(RangeView(rows).size) ? 0 : 1;
  while (leading < store.ranges.size() && all % *count != 0) {
    const auto size = const_int(RangeView(store.ranges[leading]).size);
    if (!size) return node;
    all *= *size, ++leading;
  }
  if (leading == 0 || all % *count != 0) return node;
  const int64_t number = RangeView(store.ranges[leading - 1]).number;
  const Ref outer = make_range(RangeView(rows).number, RangeView(rows).size, RangeKind::Loop),
            inner = make_range(inner_part(number), constant(all / *count), RangeKind::Loop);
  Refs ranges{outer};
  if (all != *count) ranges.push_back(inner);
  Ref left = all == *count ? outer : simplify(outer * (all / *count) + inner);
  Replacements by;
  for (size_t k = leading - 1; k > 0; --k) {
    const int64_t size = *const_int(RangeView(store.ranges[k]).size);
    by[store.ranges[k]] = simplify(left % size);
    left = simplify(left / size);
  }
  by[store.ranges[0]] = left;
  ranges.insert(ranges.end(), store.ranges.begin() + static_cast<std::ptrdiff_t>(leading), store.ranges.end());
  return make_store(store.buffer, simplify(substitute(store.offset, by)), simplify(substitute(store.value, by)),
                    ranges);
}

Ref in_fitting_rows(Ref node, int64_t most_bytes) {
  const StoreView store(node);
  int64_t rows = 1;  // of each iteration of the first loop
  for (size_t k = 1; k < store.ranges.size(); ++k) {
    const auto size = const_int(RangeView(store.ranges[k]).size);
    if (!size) break;
    rows *= *size;
    const RangeView first(store.ranges.front());
    const Ref split = in_rows_of(node, make_range(first.number, simplify(first.size * rows), RangeKind::Loop));
    if (loop_over_rows(split, most_bytes)) return split;
  }
  return node;
}

Ref tile_of_rows(Ref rows) { return with_kind(rows, RangeKind::Tile); }

Ref in_tile_of_rows(Ref node, Ref rows) {
  const StoreView store(node);
  const Replacements by{{rows, tile_of_rows(rows)}};
  Refs ranges(store.ranges.begin(), store.ranges.end());
  ranges.front() = tile_of_rows(rows);
  return make_store(substitute(store.buffer, by), substitute(store.offset, by), substitute(store.value, by), ranges);
}

Ref shared_rows(Ref store) {
  const Refs ranges = tile_ranges({store});
  return ranges.size() == 1 && tile_of_rows(ranges[0]) == ranges[0] ? ranges[0] : Ref();
}

std::optional<BufferRow> row_of_buffer(Ref node, Ref rows, int64_t most_bytes) {
  const StoreView store(node);
  Replacements first;
  for (Ref r : store.ranges)
    if (r != rows) first[r] = constant(0);
  BufferRow row{.begin = simplify(substitute(store.offset, first))};
  const auto all = index_sum(store.offset), begin = index_sum(row.begin);
  const auto rest = all && begin ? add(*all, *begin, -1) : std::nullopt;
  if (!rest || depends_on(to_node(*rest), rows)) return std::nullopt;
  std::vector<IndexTerm> terms = rest->terms;
  std::sort(terms.begin(), terms.end(), [](const IndexTerm& x, const IndexTerm& y) { return x.times < y.times; });
  row.piece_bytes = size_of(store.value->dtype);
  for (const IndexTerm& term : terms) {
    const auto count = term.product->max + 1;
    if (term.product->min != 0 || count > most_bytes) return std::nullopt;
    if (row.pieces == 1 && term.times == row.piece_bytes)
      row.piece_bytes *= count;
    else if (row.pieces == 1 && term.times > row.piece_bytes)
      row.pieces = count, row.step = term.times;
    else if (term.times == row.step * row.pieces)
      row.pieces *= count;
    else
      return std::nullopt;
    if (row.bytes() > most_bytes) return std::nullopt;
  }
  return row;
}

bool reads_own_row(Ref store, Ref buffer, const BufferRow& row) {
  const Refs nodes = toposort(store);
  return std::all_of(nodes.begin(), nodes.end(), [&](Ref n) {
    if (n->op != Op::Load || LoadView(n).buffer != buffer) return true;
    return within_row(LoadView(n).offset, row, size_of(n->dtype)).has_value();
  });
}

bool stores_own_row(Ref node, const BufferRow& row) {
  const StoreView store(node);
  return within_row(store.offset, row, size_of(store.value->dtype)).has_value();
}

namespace {

// The store with its loops in this order. A loop has the number of its place, as rows are told by the first one's.
Ref in_order(const StoreView& store, const Refs& order) {
  Replacements by;
  Refs ranges;
  for (size_t i = 0; i < order.size(); ++i) {
    ranges.push_back(make_range(RangeView(store.ranges[i]).number, RangeView(order[i]).size, RangeKind::Loop));
    by[order[i]] = ranges.back();
  }
  return make_store(store.buffer, substitute(store.offset, by), substitute(store.value, by), ranges);
}

}  // namespace

// One loop at a time goes to the front, or behind the first one; the first one goes further in.
Refs other_orders(Ref node) {
  const StoreView store(node);
  const Refs ranges(store.ranges.begin(), store.ranges.end());
  std::set<const Node*> seen = {node.get()};
  Refs orders;
  const auto move = [&](size_t from, size_t to) {
    Refs order = ranges;
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), ranges[from]);
    const Ref moved = in_order(store, order);
    if (seen.insert(moved.get()).second) orders.push_back(moved);
  };
  for (size_t i = 1; i < ranges.size(); ++i) move(i, 0), move(i, 1), move(0, i);
  return orders;
}

bool takes_index_from(Ref store, Ref buffer) {
  const auto is_of_buffer = [&](Ref n) { return n->op == Op::Load && LoadView(n).buffer == buffer; };
  const Refs nodes = toposort(store);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    if (n->op != Op::Load) return false;
    const Refs below = toposort(LoadView(n).offset);
    return std::any_of(below.begin(), below.end(), is_of_buffer);
  });
}

Ref store_on_chip(Ref node, Ref local, const BufferRow& row) {
  const StoreView store(node);
  const auto at = within_row(store.offset, row, size_of(store.value->dtype));
  return make_store(local, simplify(to_node(*at)), store.value, store.ranges);
}

Ref read_on_chip(Ref store, Ref buffer, Ref local, const BufferRow& row) {
  return rebuild(store, [&](Ref original, Ref n) {
    if (original->op != Op::Load || LoadView(original).buffer != buffer) return n;
    const auto at = within_row(LoadView(n).offset, row, size_of(n->dtype));
    return with_sources(n, {local, simplify(to_node(*at))});
  });
}

}  // namespace smelt
