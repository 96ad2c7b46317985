#include "schedule/marked_axes.h"

#include <doctest/doctest.h>

#include "graph/tensor.h"

using namespace smelt;

namespace {

Tensor tensor(std::vector<Dim> shape) { return param(0, DType::F32, std::move(shape), "x"); }

}  // namespace

TEST_CASE("axes keep their marks where they move") {
  CHECK(through_move(permute(tensor({2, 3, 4}), {2, 0, 1}).ref(), {0, 1}) == Axes{1, 2});
  CHECK(through_move(slice(tensor({8, 3}), 0, 2, 4).ref(), {0}) == Axes{0});
}

TEST_CASE("an axis that is divided marks all its parts, and one of those that are merged marks the whole") {
  CHECK(through_move(reshape(tensor({6, 5}), {2, 3, 5}).ref(), {0}) == Axes{0, 1});
  CHECK(through_move(reshape(tensor({6, 5}), {2, 3, 5}).ref(), {1}) == Axes{2});
  CHECK(through_move(reshape(tensor({2, 3, 5}), {6, 5}).ref(), {1}) == Axes{0});
  CHECK(through_move(reshape(tensor({2, 3, 5}), {2, 15}).ref(), {0}) == Axes{0});
}

TEST_CASE("an axis of one element is no axis") {
  CHECK(through_move(reshape(tensor({6, 5}), {6, 1, 5}).ref(), {1}) == Axes{2});
  CHECK(through_move(reshape(tensor({1, 6}), {6}).ref(), {0, 1}) == Axes{0});
}

TEST_CASE("behind a reduction axes are counted anew, and an expansion repeats along what was one long") {
  CHECK(without_axis({0, 1, 3}, 1) == Axes{0, 2});
  CHECK(expanded_axes(expand(tensor({1, 3, 1}), {4, 3, 5}).ref()) == Axes{0, 2});
}
