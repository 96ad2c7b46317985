// Streams: which sums over matrices are read one after the other.
#include "schedule/streams.h"

#include <doctest/doctest.h>

#include "graph/range_kind.h"
#include "graph/rules_algebra.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"
#include "support/chosen_matrices.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

Refs nests(Ref root, const PlacementOptions& options = {}) {
  const Schedule schedule = make_schedule(root, options);
  REQUIRE(schedule.kernels.size() == 1);
  return nests_of(schedule.kernels[0]);
}

}  // namespace

TEST_CASE(
    "terms of chosen matrices are kept on chip, matrix by matrix, and added up by who made them") {
  const Refs found = nests(sum_over_chosen({.used = 4, .rows = 64, .width = 32}));
  REQUIRE(found.size() == 2);
  CHECK(goes_in_passes(found[0]->src[0]));
  CHECK(!goes_in_passes(found[1]->src[0]));
  CHECK(!is_local_nest(found[0]));
  CHECK(store_buffer(found[0]->src[0])->op == Op::Local);
  CHECK(store_buffer(found[0]->src[0])->arg.list[0] == 4 * 64 * 4);
  CHECK(store_buffer(found[1]->src[0])->op == Op::Param);
  // Both have the same tasks; the loop over matrices is around them.
  REQUIRE(tile_ranges(found[0]).size() == 1);
  CHECK(tile_ranges(found[0]) == tile_ranges(found[1]));
  CHECK(*const_int(tile_ranges(found[0])[0]->src[0]) == 64 / 16);
  const Ref pass = store_ranges(found[0]->src[0])[0];
  CHECK(static_cast<RangeKind>(pass->arg.list[0]) == RangeKind::Pass);
  CHECK(*const_int(pass->src[0]) == 4);
}

TEST_CASE("what would gain nothing from passes, or does not fit, stays one nest") {
  // Rows that are no multiple of a vector, or one task; more terms than there is room for.
  CHECK(nests(sum_over_chosen({.used = 4, .rows = 16, .width = 32})).size() == 1);
  CHECK(nests(sum_over_chosen({.used = 4, .rows = 40, .width = 32})).size() == 1);
  CHECK(
      nests(sum_over_chosen({.used = 4, .rows = 64, .width = 32}), {.on_chip_bytes = 512}).size() ==
      1);
  // Matrices that lie side by side, in their order.
  const Tensor products = sum(input(1, {4, 64, 32}) * unsqueeze(input(2, {4, 32}), 1), -1);
  CHECK(nests(sink({output(9, sum(products, 0))})).size() == 1);
  // One number of each matrix and row: no stream.
  const Tensor picked = gather(input(1, {8, 64}), input(0, {4}, DType::I32));
  CHECK(nests(sink({output(9, sum(picked, 0))})).size() == 1);
}
