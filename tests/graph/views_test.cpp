// Parts of nodes by name.
#include "graph/views.h"

#include <doctest/doctest.h>

#include "graph/verify.h"

using namespace smelt;

namespace {

Ref loop(int64_t axis, int64_t size) { return make_range(output_range(axis), constant(size), RangeKind::Loop); }
Ref over(int64_t size) { return make_range(reduce_range(0), constant(size), RangeKind::Reduce); }
Ref buffer(int64_t number) { return make(Op::Param, DType::Void, {}, {.i = number}); }

}  // namespace

TEST_CASE("a store and a reduction run over ranges, which can be exchanged") {
  const Ref i = loop(0, 8), j = loop(1, 4), k = over(16);
  const Ref x = make_load(DType::F32, buffer(0), k * 4), sum = make_reduce(Op::ReduceSum, DType::F32, {x}, Refs{k});
  const Ref store = make_store(buffer(1), i * 16 + j * 4, sum, Refs{i, j});
  CHECK(own_ranges(store) == Refs{i, j});
  CHECK(own_ranges(sum) == Refs{k});
  CHECK(own_ranges(with_ranges(store, Refs{j, i})) == Refs{j, i});
  CHECK(with_ranges(with_ranges(store, Refs{j, i}), Refs{i, j}) == store);
  CHECK(StoreView(store).value == sum);
  CHECK(RangeView(k).count() == 16);
  CHECK(first_of_kind(StoreView(store).ranges, RangeKind::Loop) == i);
  CHECK(!first_of_kind(StoreView(store).ranges, RangeKind::Task));
  CHECK(all_of_kind(StoreView(store).ranges, RangeKind::Loop) == Refs{i, j});
}

TEST_CASE("what a reduction combines may be a range") {
  const Ref i = loop(0, 8), k = over(16);
  for (Ref value : {k, i}) {
    const Ref greatest = make_reduce(Op::ReduceMax, DType::I64, {value}, Refs{k});
    REQUIRE(ReduceView(greatest).values.size() == 1);
    CHECK(ReduceView(greatest).values[0] == value);
    CHECK(own_ranges(greatest) == Refs{k});
    const Ref store = make_store(buffer(0), i * 8, greatest, Refs{i});
    CHECK(verify(make(Op::Sink, DType::Void, {store}), Phase::Kernel).ok());
  }
}

TEST_CASE("a lane reduction names what it combines and how") {
  const Ref lanes = make_range(reduce_range(0), constant(8), RangeKind::Lane);
  const Ref x = make_load(DType::F32, buffer(0), lanes * 4);
  const LaneReduceView view(make_lane_reduce(Op::ReduceMax, x, lanes));
  CHECK(view.reduce == Op::ReduceMax);
  CHECK(view.value == x);
  CHECK(view.lanes == lanes);
}
