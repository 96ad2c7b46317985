// Ids of ranges: text that leads back to the range, whatever was cut around it.
#include "codegen/range_id.h"

#include <doctest/doctest.h>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

TEST_CASE("an id says which axis, and which part of it") {
  CHECK(to_string(RangeId{output_range(1)}) == "o1");
  CHECK(to_string(RangeId{reduce_range(0)}) == "r0");
  CHECK(to_string(RangeId{outer_part(output_range(12))}) == "o12.0");
  CHECK(to_string(RangeId{inner_part(outer_part(reduce_range(3)))}) == "r3.01");
  CHECK(to_string(RangeId{.number = reduce_range(0), .among = 2}) == "r0#2");
  CHECK(to_string(RangeId{7}) == "7");
}

TEST_CASE("ids lead back from their text") {
  for (int64_t number : {int64_t{7}, output_range(0), output_range(31), reduce_range(31), inner_part(reduce_range(2)),
                         outer_part(outer_part(output_range(5))), (int64_t{1} << kMostRangeBits) - 1})
    for (int among : {0, 1, 5}) {
      const RangeId id{number, among};
      CAPTURE(to_string(id));
      CHECK(parse_range_id(to_string(id)) == id);
    }
  for (const char* text : {"", "o", "x1", "o32", "r32", "o1.", "o1.2", "o1.0#", "o1#0", "o1#x", "64", "-1", "7.0",
                           "o-1", "o1.01010101010101010101010101010101010101010101010101", "o99999999999999999999"})
    CHECK_MESSAGE(!parse_range_id(text), text);
}

TEST_CASE("an axis keeps its id when others are cut and moved") {
  const Ref root = sink({output(2, linear(input(0, {8, 64}), input(1, {16, 64})))});
  Refs stores = prepared(kernel_of(root).tree);
  const Ref columns = axis_of(stores, *parse_range_id("o1")), sums = axis_of(stores, *parse_range_id("r1.1"));
  REQUIRE(columns);
  REQUIRE(sums);
  stores = apply_opts(stores, {upcast("o0", 4), split("r1.0", 2), front("o1")});
  CHECK(axis_of(stores, *parse_range_id("o1")) == columns);
  CHECK(axis_of(stores, *parse_range_id("r1.1")) == sums);
  CHECK(to_string(id_of(stores, columns)) == "o1");
  CHECK(!axis_of(stores, *parse_range_id("o0")));  // only its parts are there
  for (Ref axis : axes_of(stores)) CHECK(axis_of(stores, id_of(stores, axis)) == axis);
}

TEST_CASE("reductions side by side that have one number are told apart") {
  const Ref a = make_range(reduce_range(0), constant(8), RangeKind::Reduce);
  const Ref b = make_range(reduce_range(0), constant(32), RangeKind::Reduce);
  const auto buffer = [](int64_t slot) { return make(Op::Param, DType::Void, {}, {.i = slot}); };
  const auto sum_over = [&](Ref range) {
    return make_reduce(Op::ReduceMax, DType::F32, {make_load(DType::F32, buffer(1), range * 4)}, {&range, 1});
  };
  const Refs stores{make_store(buffer(0), constant(0), sum_over(a) + sum_over(b), {})};
  REQUIRE(axes_of(stores).size() == 2);
  for (Ref axis : axes_of(stores)) CHECK(axis_of(stores, id_of(stores, axis)) == axis);
  CHECK(!(id_of(stores, a) == id_of(stores, b)));
  CHECK(why_not(stores, group("r0#2", 8)) == "group: there is no axis r0#2 among r0 r0#1");
}
