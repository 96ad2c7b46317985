// Streams: which sums over matrices are read one after the other.
#include "schedule/streams.h"

#include <doctest/doctest.h>

#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"
#include "support/chosen_matrices.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

Refs nests(Ref root, const Machine& machine = {}) {
  const Schedule schedule = make_schedule(root, machine);
  REQUIRE(schedule.kernels.size() == 1);
  return nests_of(schedule.kernels[0]);
}

}  // namespace

TEST_CASE("terms of chosen matrices are kept on chip, matrix by matrix, and added up by who made them") {
  const Refs found = nests(sum_over_chosen({.used = 4, .rows = 64, .width = 32}));
  REQUIRE(found.size() == 2);
  CHECK(goes_in_sweeps(found[0]->src));
  CHECK(!goes_in_sweeps(found[1]->src));
  CHECK(!is_local_nest(found[0]));
  const StoreView terms(found[0]->src[0]), sums(found[1]->src[0]);
  CHECK(terms.buffer->op == Op::Local);
  CHECK(local_bytes(terms.buffer) == 4 * 64 * 4);
  CHECK(sums.buffer->op == Op::Param);
  // Both have the same tasks; the loop over matrices is around them.
  REQUIRE(tile_ranges(found[0]->src).size() == 1);
  CHECK(tile_ranges(found[0]->src) == tile_ranges(found[1]->src));
  CHECK(*const_int(RangeView(tile_ranges(found[0]->src)[0]).size) == 64 / 16);
  const RangeView sweep(terms.ranges[0]);
  CHECK(sweep.kind == RangeKind::Sweep);
  CHECK(*const_int(sweep.size) == 4);
}

TEST_CASE("what would gain nothing from sweeps, or does not fit, stays one nest") {
  // Rows that are no multiple of a vector, or one task; more terms than there is room for.
  CHECK(nests(sum_over_chosen({.used = 4, .rows = 16, .width = 32})).size() == 1);
  CHECK(nests(sum_over_chosen({.used = 4, .rows = 40, .width = 32})).size() == 1);
  CHECK(nests(sum_over_chosen({.used = 4, .rows = 64, .width = 32}), {.local_bytes = 512}).size() == 1);
  // Matrices that lie side by side, in their order.
  const Tensor products = sum(input(1, {4, 64, 32}) * unsqueeze(input(2, {4, 32}), 1), -1);
  CHECK(nests(sink({output(9, sum(products, 0))})).size() == 1);
  // One number of each matrix and row: no stream.
  const Tensor picked = gather(input(1, {8, 64}), input(0, {4}, DType::I32));
  CHECK(nests(sink({output(9, sum(picked, 0))})).size() == 1);
}
