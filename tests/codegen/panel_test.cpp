// Panels: what the iterations of a loop share, made once and kept on chip.
#include "codegen/panel.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/rules_algebra.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

Opt panel_opt(AxisName axis, int64_t rows) { return {OptKind::Panel, axis.id, rows}; }

Dim tokens() { return Dim(variable("tokens8", 1, 4) * 8); }

// y[t, n] = (d[n] & 63) * sum over k of q[n, k] x[t, k], of nibbles and bytes, for groups of 8.
Tensor grouped(Tensor q, Tensor d, Tensor x) {
  const Tensor dot = sum(cast(q & 15, DType::I32) * cast(x, DType::I32), -1);  // [T, N, groups]
  return sum(cast(d & 63, DType::F32) * cast(dot, DType::F32), -1);
}

Ref byte_groups() {
  return sink({output(9, grouped(input(0, {1, 32, 4, 8}, DType::U8), input(1, {1, 32, 4}, DType::U8),
                                 slice(input(2, {32, 1, 4, 8}, DType::I8), 0, 0, tokens())))});
}

// Nibbles become bytes in other steps: what 16 bits of factor * q + base have above the point.
Ref scaled_bytes() {
  const auto of_groups = [](int slot) { return input(slot, {1, 32, 4, 1}, DType::U16); };
  const Tensor q = cast(input(0, {1, 32, 4, 8}, DType::U8) & 15, DType::U16);
  const Tensor bytes = cast((q * of_groups(3) + of_groups(4)) >> 8, DType::U8);
  const Tensor x = slice(input(2, {32, 1, 4, 8}, DType::I8), 0, 0, tokens());
  return sink({output(9, sum(cast(sum(cast(bytes, DType::I32) * cast(x, DType::I32), -1), DType::F32), -1))});
}

// `turned`: with each 16 rows of the weight in the other order.
Ref float_product(bool turned = false) {
  Tensor w = input(0, {2, 16, 2, 18}, DType::U8);
  if (turned) w = flip(w, 1);
  return sink({output(9, linear(slice(input(2, {32, 64}), 0, 0, tokens()), q4_0(reshape(w, {32, 2, 18}))))});
}

// Tiles of some places, each with the matrix of its expert; some are not used.
Ref expert_tiles(int64_t places = 2, Dim tiles = 16) {
  const auto of_tiles = [&](Tensor x) { return slice(x, 0, 0, tiles); };
  const Tensor expert = of_tiles(input(0, {32}, DType::I32)) % 3, raw = input(1, {3, 32, 4, 8}, DType::U8),
               d = input(2, {3, 32, 4}, DType::U8), x = of_tiles(input(3, {32, places, 1, 4, 8}, DType::I8));
  const Tensor used = less(cast(iota({tiles, 1, 1}, 0), DType::I32), input(4, {1, 1, 1}, DType::I32));
  const Tensor y = grouped(unsqueeze(gather(raw, expert), 1), unsqueeze(gather(d, expert), 1), x);
  return sink({output(9, where(used, y, scalar(0)))});
}

// Each of two places has an expert of its own, whatever the token.
Ref experts_of_places() {
  const Tensor expert = input(0, {2}, DType::I32) % 3, raw = input(1, {3, 32, 4, 8}, DType::U8),
               d = input(2, {3, 32, 4}, DType::U8);
  const Tensor x = slice(input(3, {32, 2, 1, 4, 8}, DType::I8), 0, 0, tokens());
  return sink({output(9, grouped(unsqueeze(gather(raw, expert), 0), unsqueeze(gather(d, expert), 0), x))});
}

// Each token chooses an expert for each of two places.
Ref experts_of_tokens() {
  const Tensor expert = slice(input(0, {32, 2}, DType::I32), 0, 0, tokens()) % 3,
               raw = input(1, {3, 32, 4, 8}, DType::U8), d = input(2, {3, 32, 4}, DType::U8);
  const Tensor x = slice(input(3, {32, 2, 1, 4, 8}, DType::I8), 0, 0, tokens());
  return sink({output(9, grouped(gather(raw, expert), gather(d, expert), x))});
}

Refs last_nest(const JudgedKernel& kernel) { return prepare_nest(kernel.tree->src.back(), Machine{}); }

KernelOpts with_opts(const JudgedKernel& kernel, const std::vector<Opt>& opts) {
  KernelOpts all(kernel.tree->src.size());
  all.back() = opts;
  return all;
}

}  // namespace

TEST_CASE("kernels with panels agree with the interpreter, with more options and without") {
  std::mt19937_64 rng(3);
  for (Ref root :
       {byte_groups(), scaled_bytes(), float_product(), expert_tiles(), experts_of_places(), experts_of_tokens()}) {
    const bool has_tokens = root != expert_tiles();
    const JudgedKernel kernel = kernel_of(root, has_tokens ? Variables{{"tokens8", 3}} : Variables{});
    for (int64_t rows : {16, 32}) {
      const std::vector<Opt> opts{panel_opt("o0", rows)};
      REQUIRE(why_not(last_nest(kernel), opts[0]) == "");
      CHECK(problem_with(kernel, with_opts(kernel, opts)) == "");
      for (int round = 0; round < 10; ++round) {
        std::vector<Opt> more = random_opts(apply_opts(last_nest(kernel), opts), rng, 6);
        more.insert(more.begin(), opts[0]);
        CHECK_MESSAGE(problem_with(kernel, with_opts(kernel, more)) == "", to_string(more));
      }
    }
  }
}

TEST_CASE("a panel holds bytes as words of 16 rows, and floats") {
  const JudgedKernel kernel = kernel_of(byte_groups(), {{"tokens8", 3}});
  const NestWithPanel made = with_panel(last_nest(kernel), panel_opt("o0", 32), 7);
  REQUIRE(made.panels.size() == 3);  // nibbles, scales, and which panel it is
  CHECK(made.panels[0][0]->src[0]->arg.list[0] == 32 * 32);
  CHECK(made.panels[1][0]->src[0]->arg.list[0] == 32 * 4 * 4);
  CHECK(made.panels[2][0]->src[0]->arg.i == 7);
  CHECK(made.reset[0]->src[0]->arg.i == 7);
  const std::vector<Opt> opts = choose_opts(made.panels[0], {}, false);
  CHECK(std::any_of(opts.begin(), opts.end(), [](Opt o) { return o.kind == OptKind::Pack; }));
}

TEST_CASE("what the bytes of a panel are at most is known where they are read") {
  const JudgedKernel kernel = kernel_of(byte_groups(), {{"tokens8", 3}});
  const std::vector<Opt> opts{panel_opt("o0", 32), {OptKind::Dot, AxisName("r1.1").id, 4}};
  const Program program = program_of(kernel, with_opts(kernel, opts));
  int dots = 0;
  for (const Instruction& x : program.code)
    if (x.kind == Inst::Value && x.op == Op::Dot4) {
      ++dots;
      CHECK(x.arg.i == 15);
    }
  CHECK(dots > 0);
}

TEST_CASE("bytes that are made by 16 bits are bytes of a panel") {
  const JudgedKernel kernel = kernel_of(scaled_bytes(), {{"tokens8", 3}});
  const NestWithPanel made = with_panel(last_nest(kernel), panel_opt("o0", 32), 0);
  REQUIRE(made.panels.size() == 2);
  CHECK(made.panels[0][0]->src[0]->arg.list[0] == 32 * 32);
}

TEST_CASE("the next panel is asked for where it lies, whatever the order of its rows") {
  const auto next_of = [](Ref root) {
    const JudgedKernel kernel = kernel_of(root, {{"tokens8", 3}});
    const std::vector<Opt> opts{panel_opt("o0", 16)};
    REQUIRE(why_not(last_nest(kernel), opts[0]) == "");
    CHECK(problem_with(kernel, with_opts(kernel, opts)) == "");
    const auto next = with_panel(last_nest(kernel), opts[0], 0).next;
    REQUIRE(next.has_value());
    return std::pair(simplify(next->offset)->min, next->bytes);
  };
  CHECK(next_of(float_product()) == next_of(float_product(true)));
}

TEST_CASE("the heuristic makes panels of what many tokens share, but not what an index chooses for a few") {
  const auto chosen = [](Ref root, const Variables& variables, const Machine& machine = {}) {
    return has_panel(choose_opts(last_nest(kernel_of(root, variables)), machine, false));
  };
  const Machine with_unit = *known_machine("sapphire-rapids");
  CHECK(chosen(expert_tiles(16, tokens()), {{"tokens8", 3}}, with_unit));
  CHECK_FALSE(chosen(expert_tiles(4, tokens()), {{"tokens8", 3}}, with_unit));
  CHECK_FALSE(chosen(expert_tiles(16, tokens()), {{"tokens8", 3}}));
  CHECK(chosen(byte_groups(), {{"tokens8", 3}}));
  CHECK(chosen(float_product(), {{"tokens8", 3}}));
  CHECK_FALSE(chosen(expert_tiles(), {}));
}

TEST_CASE(
    "where registers take two vectors of rows, a panel has both, if they leave a quarter of the second-level cache") {
  const JudgedKernel kernel = kernel_of(byte_groups(), {{"tokens8", 3}});
  const auto rows_of = [&](int64_t l2_bytes, int64_t registers, int64_t panel_bytes = 16 * 48) {  // of one vector
    const Machine machine{.registers = registers, .l2_bytes = l2_bytes, .panel_bytes = panel_bytes};
    const std::vector<Opt> opts = choose_opts(last_nest(kernel), machine, false);
    const size_t place = place_of_panel(opts);
    return place < opts.size() ? opts[place].amount : 0;
  };
  CHECK(rows_of(2048, 32) == 32);
  CHECK(rows_of(2047, 32) == 16);
  CHECK(rows_of(2048, 16) == 16);
  // Where they do not, the fewest rows may take as much, if they are too long for panel_bytes.
  CHECK(rows_of(1024, 16, 16 * 48 - 1) == 16);
  CHECK(rows_of(1023, 16, 16 * 48 - 1) == 0);
}

TEST_CASE("an axis may be cut before there is a panel") {
  const JudgedKernel kernel = kernel_of(byte_groups(), {{"tokens8", 3}});
  const Refs stores = last_nest(kernel);
  const Opt cut = split("o1", 2), panel = panel_opt("o0", 16);
  REQUIRE(why_not(stores, cut) == "");
  REQUIRE(why_not(apply_opt(stores, cut), panel) == "");
  CHECK(problem_with(kernel, with_opts(kernel, {cut, panel})) == "");
}

TEST_CASE("why a nest cannot have a panel") {
  const JudgedKernel kernel = kernel_of(byte_groups(), {{"tokens8", 3}});
  const Refs stores = last_nest(kernel);
  CHECK(why_not(stores, panel_opt("r1", 16)) == "panel: axis r1 is not an output axis");
  CHECK(why_not(stores, panel_opt("o0", 8)) == "panel: a panel has 16 rows or more");
  CHECK(why_not(stores, panel_opt("o0", 24)) == "panel: 24 rows do not make a panel");
  CHECK(why_not(stores, panel_opt("o1", 16)) == "panel: nothing that its iterations share is computed");
  CHECK(why_not(apply_opt(stores, local("o1", 16)), panel_opt("o0", 16)) ==
        "panel: it comes before options that take axes, for stores with the same loops");
  const JudgedKernel chosen = kernel_of(experts_of_tokens(), {{"tokens8", 3}});
  CHECK(why_not(last_nest(chosen), panel_opt("o0", 64)) == "panel: an index differs inside of a panel");
}

TEST_CASE("four bytes side by side are stored as one word") {
  const Tensor x = input(0, {16, 32}, DType::U8);
  const JudgedKernel kernel = kernel_of(sink({output(9, (x >> 4) & 3)}), {});
  const Opt pack{OptKind::Pack, {output_range(1)}, 4};
  const RangeId rest{outer_part(output_range(1))};
  const Refs stores = last_nest(kernel);
  CHECK(why_not(stores, pack) == "");
  CHECK(why_not(stores, {OptKind::Pack, {output_range(0)}, 4}) == "pack: axis o0 is not one of bytes side by side");
  CHECK(why_not(stores, {OptKind::Pack, {output_range(1)}, 8}) == "pack: a word has 4 bytes");
  CHECK(why_not(apply_opt(stores, pack), {OptKind::Pack, rest, 2}) == "pack: a word has 4 bytes");
  CHECK(why_not(apply_opt(stores, pack), {OptKind::Pack, rest, 4}) == "pack: the nest has an axis of bytes");
  CHECK(problem_with(kernel, with_opts(kernel, {pack})) == "");
  CHECK(problem_with(kernel, with_opts(kernel, {pack, local(rest, 8)})) == "");
}
