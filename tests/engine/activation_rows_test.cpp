// What the numbers that products of a prompt read cost in kernels.
#include <doctest/doctest.h>

#include "model/product.h"
#include "schedule/schedule.h"

using namespace smelt;

TEST_CASE("blocks of eight tokens are rows: their maxima, bytes and sums are one kernel for blocks of threads") {
  const Dim tokens = Dim(variable("tokens32", 1, 16) * 32);
  const Activations a = quantise_activations(param(0, DType::F32, {tokens, 10240}, "x"), {.rows = 8});
  const Tensor sums = place_rows(sum(reshape(cast(a.q, DType::I32), {tokens, 320, 32}), -1), {.rows = 8});
  const Schedule schedule = make_schedule(sink({output(1, sums)}), *known_machine("h100"));
  CHECK(summary(schedule) ==
        "local reduce_max[?,8] | local cast[?,4,8,32] | reduce_sum[?,4,8]\n"
        "load[?,320]\n");  // an output is a matrix, row by row
}
