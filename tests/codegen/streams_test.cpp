// How many groups of rows a product of one token reads side by side: as many as the machine's prefetchers follow.
#include <doctest/doctest.h>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

JudgedKernel product(int64_t tokens, int64_t rows) {
  return kernel_of(sink({output(9, grouped_product(tokens, rows, 2, 4))}));
}

KernelOpts chosen(const JudgedKernel& k, const Machine& machine) {
  return generate({.tree = k.tree, .name = "kernel", .machine = machine}).opts;
}

// The amount of the only UPCAST; 1 if there is none.
int64_t upcast_of(const KernelOpts& opts) {
  int64_t n = 1;
  for (const Opt& o : opts[0])
    if (o.kind == OptKind::Upcast) n *= o.amount;
  return n;
}

}  // namespace

TEST_CASE("a product of one token reads as many groups of rows as there are streams, and computes the same") {
  const JudgedKernel k = product(1, 512);
  for (int64_t streams : {1, 2, 4, 8}) {
    CAPTURE(streams);
    const KernelOpts opts = chosen(k, {.streams = streams});
    CHECK(upcast_of(opts) == streams);
    CHECK(problem_with(k, opts) == "");
  }
}

TEST_CASE("every processor keeps some tasks, and sums stay in registers") {
  const JudgedKernel k = product(1, 512);  // 32 groups of rows
  CHECK(upcast_of(chosen(k, {.processors = 2, .streams = 8})) == 4);
  CHECK(upcast_of(chosen(k, {.processors = 8, .streams = 8})) == 1);
  CHECK(upcast_of(chosen(k, {.processors = 32, .streams = 8})) == 1);
  CHECK(upcast_of(chosen(k, {.streams = 8, .sums = 4})) == 4);
}

TEST_CASE("words of a matrix are asked for ahead of time where prefetchers do not run ahead") {
  const JudgedKernel k = product(1, 1 << 14);  // more than stays in a cache
  const auto hints = [&](int64_t ahead, int64_t streams) {
    const Machine machine{.streams = streams, .stream_ahead_bytes = ahead};
    const Program program = generate({.tree = k.tree, .name = "kernel", .machine = machine}).program;
    int64_t near = 0, words = 0;
    for (const Instruction& x : program.code) {
      near += x.kind == Inst::Prefetch && x.arg.i == ahead;
      words += x.kind == Inst::Load && x.arg.i == 1;
    }
    CHECK(words > 0);
    return near == words ? 1 : near == 0 ? 0 : -1;
  };
  CHECK(hints(0, 1) == 0);
  CHECK(hints(0, 8) == 0);
  CHECK(hints(2048, 8) == 1);
  CHECK(hints(4096, 1) == 1);
}

TEST_CASE("several tokens share what they read, whatever the streams") {
  const JudgedKernel k = product(4, 512);
  CHECK(chosen(k, {.streams = 8}) == chosen(k, {.streams = 1}));
}
