// Lines of source beside the graph.
#include "graph/line.h"

#include <doctest/doctest.h>

#include "graph/tensor.h"

using namespace smelt;

namespace {

Tensor x() { return param(0, DType::F32, {4, 8}, "line_test x"); }

// Stands for its caller.
Tensor mean(Tensor v, Line line = Line::current()) {
  const AtLine at(line);
  return sum(v, 1) * (1.0 / 8);
}

}  // namespace

TEST_CASE("a tensor knows the line that made it, equal ones made elsewhere are it") {
  const Line here = Line::current();
  const Tensor first = sum(x(), 1);
  const Tensor again = sum(x(), 1);
  REQUIRE(line_of(first.ref()));
  CHECK(line_of(first.ref())->line() == here.line() + 1);
  CHECK(to_text(*line_of(first.ref())) == "line_test.cpp:" + std::to_string(here.line() + 1));
  CHECK(first == again);
}

TEST_CASE("a helper hands on the line of its caller, for all that it makes") {
  const Line here = Line::current();
  const Tensor m = mean(x() * 2.0);
  CHECK(line_of(m.ref())->line() == here.line() + 1);
  CHECK(line_of(m.ref()->src[0])->line() == here.line() + 1);
}

TEST_CASE("a tensor without a line has that of the nearest below it, or none") {
  const Line here = Line::current();
  const Tensor inner = max(x() * 3.0, 1);
  const Tensor outer = inner * 2.0 + inner;
  CHECK(line_of(outer.ref())->line() == here.line() + 1);
  CHECK_FALSE(line_of(param(7, DType::F32, {3}, "line_test alone").ref()));
}

TEST_CASE("what replaces a tensor keeps its line") {
  const Line here = Line::current();
  const Tensor before = sum(x() * 5.0, 0);
  const Ref five = constant_f(5), six = constant_f(6);
  const Ref after = rebuild(before.ref(), [&](Ref, Ref node) { return node == five ? six : node; });
  CHECK_FALSE(after == before.ref());
  REQUIRE(line_of(after));
  CHECK(line_of(after)->line() == here.line() + 1);
}
