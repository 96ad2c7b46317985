// Kernels of tiles against the interpreter.
#include "schedule/tiles.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// Attention of `heads` over rows of 32, the first of which are values; chunks of 32.
Ref small_attention(int64_t heads, int64_t values) {
  const Dim length = Dim(Dim(variable("chunks", 1, 8)).ref * 32);
  return sink(
      {output(9, attention(input(0, {heads, 32}), input(1, {256, 32}), input(2, {1}, DType::I32), length, values))});
}

}  // namespace

TEST_CASE("a tiled attention agrees with the interpreter, with options and without") {
  std::mt19937_64 rng(7);
  // 32 values: as many as there are positions in a chunk.
  for (const auto& [heads, values] : {std::pair{1, 8}, {4, 32}, {6, 8}, {6, 32}}) {
    JudgedKernel kernel = kernel_of(small_attention(heads, values), {{"chunks", 3}});
    for (int32_t position : {0, 15, 16, 40, 95}) {
      for (Bytes& buffer : kernel.buffers)
        if (buffer.size() == 4) std::memcpy(buffer.data(), &position, 4);
      CAPTURE(position);
      CHECK(problem_with(kernel, KernelOpts(kernel.tree->src.size())) == "");
      CHECK(problem_with(kernel, {}) == "");
      const KernelOpts opts = random_opts_of(kernel.tree, rng, 6);
      CHECK_MESSAGE(problem_with(kernel, opts) == "", to_text(opts));
    }
  }
}

TEST_CASE("a tile that goes over all chunks agrees with the interpreter, with options and without") {
  std::mt19937_64 rng(11);
  const Dim tokens = Dim(variable("tokens8", 1, 64) * 8), length = Dim(variable("chunks", 1, 8) * 32);
  // 8 and 4 tokens in a tile; 32 values: as many as there are positions in a chunk.
  for (const auto& [heads, values] : {std::pair{1, 8}, {40, 32}}) {
    const Tensor o = attention_of_tokens(input(0, {tokens, heads, 32}), input(1, {256, 32}),
                                         input(2, {tokens}, DType::I32), length, values);
    const Tensor weight = input(3, {values});
    JudgedKernel kernel = kernel_of(sink({output(9, o * weight)}), {{"tokens8", 1}, {"chunks", 4}});
    REQUIRE(std::any_of(kernel.tree->src.begin(), kernel.tree->src.end(),
                        [](Ref nest) { return static_cast<bool>(chunk_range(nest->src)); }));
    const std::array<int32_t, 8> positions{0, 31, 32, 33, 70, 96, 126, 127};
    for (Bytes& buffer : kernel.buffers)
      if (buffer.size() == sizeof positions) std::memcpy(buffer.data(), positions.data(), sizeof positions);
    CAPTURE(heads);
    CHECK(problem_with(kernel, KernelOpts(kernel.tree->src.size())) == "");
    CHECK(problem_with(kernel, {}) == "");
    const KernelOpts opts = random_opts_of(kernel.tree, rng, 6);
    CHECK_MESSAGE(problem_with(kernel, opts) == "", to_text(opts));
  }
}

TEST_CASE("sums of a tile over all that a nest before has written stay inside of it") {
  // Both heads are copies, so the sum of weights depends on no loop.
  JudgedKernel kernel = kernel_of(small_attention(2, 8), {{"chunks", 3}});
  KernelOpts opts(kernel.tree->src.size());
  for (size_t i = 0; i < opts.size(); ++i) {
    const Refs stores = prepared(kernel.tree, i);
    for (Ref axis : axes_of(stores))
      if (const Opt both = upcast(id_of(stores, axis), 2); why_not(stores, both).empty() && opts[i].empty())
        opts[i] = {both};
  }
  CHECK_MESSAGE(problem_with(kernel, opts) == "", to_text(opts));
}

TEST_CASE("the loops of a tile are shared out as they are") {
  const Schedule schedule = make_schedule(small_attention(6, 8));
  const Refs stores = prepare_nest(schedule.kernels[0].tree->src.back(), Machine{});
  for (Ref axis : axes_of(stores)) CHECK(why_not(stores, task(id_of(stores, axis))) != "");
}

TEST_CASE("a tile asks for what its next task reads, along the innermost of its ranges") {
  const auto buffer = [](int64_t number) { return make(Op::Param, DType::Void, {}, {.i = number}); };
  // Numbers in both orders: which range is the inner one is a matter of where it stands.
  for (const auto& [first, second] : {std::pair{64, 65}, std::pair{65, 64}}) {
    const Ref outer = make_range(first, constant(4), RangeKind::Tile),
              inner = make_range(second, constant(8), RangeKind::Tile),
              column = make_range(66, constant(16), RangeKind::Loop);
    const Refs loops{outer, inner, column};
    const Ref scratch = make_local(0, DType::F32, 64);
    const Ref weight = make_load(DType::F32, buffer(2), outer * (1 << 20) + inner * 65536 + column * 4);
    const Ref tree = sink({sink({make_store(scratch, column * 4, make_load(DType::F32, buffer(1), column * 4), loops)}),
                           sink({make_store(buffer(0), outer * 512 + inner * 64 + column * 4,
                                            weight + make_load(DType::F32, scratch, column * 4), loops)})});
    const KernelOpts opts{{local("o2", 16)}, {local("o2", 16)}};
    const Program program =
        generate({.tree = tree, .name = "tile", .machine = {}, .symbols = {}, .opts = opts}).program;
    std::vector<int64_t> ahead;
    for (const Instruction& x : program.code)
      if (x.kind == Inst::Prefetch) ahead.push_back(x.arg.i);
    CHECK(ahead == std::vector<int64_t>{65536});
  }
}
