#include "schedule/row_tiles.h"

#include <algorithm>

#include "graph/range_kind.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr double kMostRowBytes = 64 << 10;    // that the steps of a row find in a near cache again
constexpr double kMostFactorBytes = 1 << 10;  // of sums, from elsewhere: more is a matrix

// Bytes that a load reads while the rows stand still.
double bytes_read(Ref load, Ref rows) {
  double bytes = size_of(load->dtype);
  for (Ref r : ranges_of(load->src[1]))
    if (r != rows) bytes *= static_cast<double>(std::max<int64_t>(r->src[0]->max, 1));
  return bytes;
}

// That of all rows, or one that an index of the row names.
bool reads_matrix(Ref sum, Ref rows) {
  const Refs nodes = toposort(sum);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    return n->op == Op::Load && stride(n->src[1], rows).value_or(0) == 0 &&
           bytes_read(n, rows) > kMostFactorBytes;
  });
}

bool is_in_row(Ref offset, Ref rows, int64_t row, int64_t size) {
  if (stride(offset, rows) != row) return false;
  const Ref rest = simplify(substitute(offset, {{rows, constant(0)}}));
  return rest->min >= 0 && rest->max <= row - size;
}

Ref first_row(Ref offset, Ref rows) { return simplify(substitute(offset, {{rows, constant(0)}})); }

}  // namespace

Ref loop_over_rows(Ref store) {
  if (store->src.size() == 3) return Ref();
  const Ref rows = store->src[3];
  const bool is_leading = rows->arg.i == kFirstOutputRange &&
                          rows->arg.list[0] == static_cast<int64_t>(RangeKind::Loop);
  if (!is_leading || const_int(rows->src[0])) return Ref();
  for (Ref n : toposort(store->src[2])) {
    if (n->op == Op::Load && bytes_read(n, rows) > kMostRowBytes) return Ref();
    if (is_reduce(n->op) && reads_matrix(n, rows)) return Ref();
  }
  return rows;
}

Ref tile_of_rows(Ref rows) { return make_range(rows->arg.i, rows->src[0], RangeKind::Tile); }

Ref in_tile_of_rows(Ref store, Ref rows) {
  const Replacements by{{rows, tile_of_rows(rows)}};
  Refs src = store->src;
  for (size_t i = 0; i < 3; ++i) src[i] = substitute(src[i], by);
  src[3] = tile_of_rows(rows);
  return make(Op::Store, DType::Void, std::move(src));
}

std::optional<int64_t> bytes_of_row(Ref store, Ref rows) {
  const auto row = stride(store->src[1], rows);
  if (!row || *row > static_cast<int64_t>(kMostRowBytes)) return std::nullopt;
  return is_in_row(store->src[1], rows, *row, size_of(store->src[2]->dtype)) ? row : std::nullopt;
}

bool reads_own_row(Ref store, Ref buffer, Ref rows, int64_t bytes) {
  const Refs nodes = toposort(store);
  return std::all_of(nodes.begin(), nodes.end(), [&](Ref n) {
    return n->op != Op::Load || n->src[0] != buffer ||
           is_in_row(n->src[1], rows, bytes, size_of(n->dtype));
  });
}

Ref store_on_chip(Ref store, Ref local, Ref rows) {
  Refs src = store->src;
  src[0] = local;
  src[1] = first_row(src[1], rows);
  return make(Op::Store, DType::Void, std::move(src));
}

Ref read_on_chip(Ref store, Ref buffer, Ref local, Ref rows) {
  return rebuild(store, [&](Ref original, Ref n) {
    if (original->op != Op::Load || original->src[0] != buffer) return n;
    return make(Op::Load, n->dtype, {local, first_row(n->src[1], rows)}, n->arg);
  });
}

}  // namespace smelt
