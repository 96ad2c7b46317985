// Sums of products of halves as rows of products by a unit that loads both sides from memory: which options make them,
// and that they are the sums that the graph says.
#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/instruction_views.h"
#include "codegen/panel.h"
#include "graph/matrix_shape.h"
#include "graph/rules_algebra.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kWithHalves = *known_machine("sapphire-rapids");

Tensor f32(Tensor x) { return cast(x, DType::F32); }

// Numbers of nibbles in blocks of 32 with a scale each, rounded: [1, rows, 32 blocks].
Tensor weights(Tensor bytes, Tensor scale, int64_t rows, int64_t blocks) {
  const std::vector<Dim> both{1, rows, blocks, 2, 16};
  const Tensor shift = cast(iota(both, 3) * 4.0, DType::U8);
  const Tensor nibbles =
      reshape((expand(reshape(bytes, {1, rows, blocks, 1, 16}), both) >> shift) & int64_t{15}, {1, rows, blocks, 32});
  const Tensor values = (f32(nibbles) - 8.0) * reshape(f32(scale), {1, rows, blocks, 1});
  return reshape(f32(cast(values, DType::BF16)), {1, rows, 32 * blocks});
}

JudgedKernel prompt(int64_t rows, int64_t blocks) {
  const Dim tokens = Dim(variable("tokens16", 1, 4) * 16);
  const Tensor x = input(1, {tokens, 1, 32 * blocks}, DType::BF16);
  const Tensor w = weights(input(0, {rows, blocks, 16}, DType::U8), input(2, {rows, blocks}, DType::F16), rows, blocks);
  return kernel_of(sink({output(9, sum(w * f32(x), -1))}), {{"tokens16", 3}}, 0, kWithHalves);
}

// Tiles of 16 places, each with the matrix of its expert; those behind the first ones are not used.
JudgedKernel experts(int64_t rows, int64_t blocks) {
  const Dim tiles = Dim(variable("tiles", 1, 4) * 2);
  const Tensor expert = input(0, {tiles}, DType::I32) % 3;
  const auto chosen = [&](int slot, std::vector<Dim> shape, DType dtype) {
    shape.insert(shape.begin(), Dim(3));
    return gather(input(slot, shape, dtype), expert);
  };
  const std::vector<Dim> both{tiles, rows, blocks, 2, 16};
  const Tensor shift = cast(iota(both, 3) * 4.0, DType::U8);
  const Tensor nibbles =
      reshape((expand(reshape(chosen(1, {rows, blocks, 16}, DType::U8), {tiles, rows, blocks, 1, 16}), both) >> shift) &
                  int64_t{15},
              {tiles, rows, blocks, 32});
  const Tensor scale = reshape(f32(chosen(2, {rows, blocks}, DType::F16)), {tiles, rows, blocks, 1});
  const Tensor w = reshape(f32(cast((f32(nibbles) - 8.0) * scale, DType::BF16)), {tiles, 1, rows, 32 * blocks});
  const Tensor x = input(3, {tiles, 16, 1, 32 * blocks}, DType::BF16);
  const Tensor used = less(cast(iota({tiles, 1, 1}, 0), DType::I32), input(4, {1, 1, 1}, DType::I32) % 4);
  return kernel_of(sink({output(9, where(used, sum(w * f32(x), -1), scalar(0)))}), {{"tiles", 3}}, 0, kWithHalves);
}

std::vector<Opt> chosen(const JudgedKernel& k, const Machine& machine = kWithHalves) {
  return choose_opts(prepared(k.tree, 0, machine), machine, false);
}

std::vector<MatrixShape> products_in(const Program& program) {
  std::vector<MatrixShape> found;
  for (const Instruction& x : program.code)
    if (x.kind == Inst::MatrixDot) found.push_back(matrix_shape(x));
  return found;
}

}  // namespace

TEST_CASE("products of a prompt's halves go over whole rows in the unit, 16 tokens with four blocks of rows") {
  const JudgedKernel k = prompt(128, 3);
  const std::vector<Opt> opts = chosen(k);
  CAPTURE(to_string(opts));
  CHECK(has_panel(opts));
  const std::vector<MatrixShape> products = products_in(program_of(k, {opts}, kWithHalves));
  REQUIRE(products.size() == 1);
  CHECK(products[0].of_halves);
  CHECK(!products[0].in_fragments);
  CHECK(products[0].m == 16);
  CHECK(products[0].n == 16);
  CHECK(products[0].blocks == 4);
  CHECK(products[0].k == 96);
  CHECK(products[0].a_ahead == 0);  // there are few tokens
  CHECK(problem_with(k, {opts}, kWithHalves) == "");
  Machine small = kWithHalves;
  small.streamed_bytes = 1 << 10;
  const std::vector<MatrixShape> far = products_in(program_of(k, {opts}, small));
  REQUIRE(far.size() == 1);
  CHECK(far[0].a_ahead == 16 * far[0].a_stride);  // those of the next tokens
}

TEST_CASE("a panel of halves has two neighbouring terms in a word of each row") {
  const JudgedKernel k = prompt(32, 3);
  const Refs stores = prepared(k.tree, 0, kWithHalves);
  const NestWithPanel made = with_panel(stores, {OptKind::Panel, AxisName("o0").id, 32}, 3);
  REQUIRE(made.panels.size() == 2);  // halves, and which panel it is
  CHECK(local_bytes(StoreView(made.panels[0][0]).buffer) == 32 * 96 * 2);
  CHECK(StoreView(made.panels[0][0]).value->op == Op::Halves);
}

TEST_CASE("experts' tiles that are not used have no products") {
  const JudgedKernel k = experts(64, 2);
  const std::vector<Opt> opts = chosen(k);
  CAPTURE(to_string(opts));
  CHECK(has_panel(opts));
  const std::vector<MatrixShape> products = products_in(program_of(k, {opts}, kWithHalves));
  REQUIRE(products.size() == 1);
  CHECK(products[0].m == 16);
  CHECK(products[0].blocks == 4);
  CHECK(problem_with(k, {opts}, kWithHalves) == "");
}

TEST_CASE("fewer rows are fewer blocks, and a machine without the unit has sums of floats") {
  const JudgedKernel k = prompt(32, 2);
  const std::vector<MatrixShape> products = products_in(program_of(k, {chosen(k)}, kWithHalves));
  REQUIRE(products.size() == 1);
  CHECK(products[0].blocks == 2);
  Machine bytes_only = kWithHalves;
  std::erase_if(bytes_only.matrix_units, [](const MatrixUnit& u) { return u.a == DType::BF16; });
  CHECK(unit_for_halves(bytes_only) == nullptr);
  CHECK(products_in(program_of(k, {chosen(k, bytes_only)}, bytes_only)).empty());
  CHECK(problem_with(k, {chosen(k, bytes_only)}, bytes_only) == "");
}

TEST_CASE("options around products of halves leave their sums as they are") {
  std::mt19937_64 rng(5);
  const JudgedKernel k = prompt(64, 2);
  const std::vector<Opt> all = chosen(k);
  size_t with_products = 0;
  for (size_t kept = 1; kept <= all.size(); ++kept) {
    const std::vector<Opt> opts(all.begin(), all.begin() + static_cast<int64_t>(kept));
    CAPTURE(to_string(opts));
    with_products += !products_in(program_of(k, {opts}, kWithHalves)).empty();
    CHECK(problem_with(k, {opts}, kWithHalves) == "");
  }
  CHECK(with_products == 2);  // of one block, and of four
}
