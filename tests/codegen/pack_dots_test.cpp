// Sums of products of bytes become dots of words, for the weights of every block format.
#include <doctest/doctest.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/opt.h"
#include "codegen/packed_bytes.h"
#include "codegen/passes.h"
#include "graph/rules_algebra.h"
#include "schedule/schedule.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

size_t dots_in(const Program& program) {
  return static_cast<size_t>(std::count_if(program.code.begin(), program.code.end(), [](const Instruction& x) {
    return x.kind == Inst::Value && x.op == Op::Dot4;
  }));
}

// y[n] = sum over k of w[n, k] x[k], of bytes.
Ref byte_product(DType left, DType right) {
  const Tensor w = input(0, {16, 32}, left), x = input(1, {32}, right);
  return sink({output(9, sum(cast(w, DType::I32) * cast(x, DType::I32), -1))});
}

constexpr RangeId kTerms{kFirstReduceRange + 1};

// y = sum over k of bytes u8 [32], made of a parameter, times x[k].
Ref product_of(Tensor bytes) {
  return sink({output(9, sum(cast(bytes, DType::I32) * cast(input(1, {32}, DType::I8), DType::I32), -1))});
}

}  // namespace

TEST_CASE("bytes that are computed from words and products are packed") {
  const Tensor words = reshape(input(0, {8}, DType::U32), {8, 1}), bytes = input(0, {32}, DType::U8);
  const auto fields = [&](int64_t first, int64_t mask) {
    return reshape(cast((words >> cast(iota({4}, 0) * 8.0 + double(first), DType::U32)) & mask, DType::U8), {32});
  };
  const Tensor twice = bytes * scalar(81, DType::U8);
  const Tensor trits = cast((cast(twice, DType::U16) * 3.0) >> 8, DType::U8);
  // Bytes in other steps: what 16 bits have above the point. Groups of 8 have a factor and a base.
  const auto of_groups = [](int slot) { return reshape(input(slot, {4}, DType::U16), {4, 1}); };
  const Tensor integers = cast(reshape(bytes, {4, 8}), DType::U16);
  const Tensor scaled = reshape(cast((integers * of_groups(2) + of_groups(3)) >> 8, DType::U8), {32});
  for (Tensor x : {fields(0, 15), fields(4, 15), fields(3, 31), twice, trits, scaled}) {
    const JudgedKernel k = kernel_of(product_of(x), {});
    CHECK(dots_in(program_of(k, {})) > 0);
    CHECK(problem_with(k, {}) == "");
  }
}

TEST_CASE("products of unsigned and signed bytes are packed, others are not") {
  const auto reason = [](DType left, DType right) {
    const JudgedKernel k = kernel_of(byte_product(left, right), {});
    return why_not(prepare_nest(k.tree->src.back(), Machine{}), {OptKind::Dot, kTerms, 4});
  };
  CHECK(reason(DType::U8, DType::I8) == "");
  CHECK(reason(DType::I8, DType::U8) == "");
  CHECK(reason(DType::I8, DType::I8) == "dot: axis r1 is not one of sums of products of bytes");
  CHECK(reason(DType::U16, DType::I8) == "dot: axis r1 is not one of sums of products of bytes");
}

TEST_CASE("a word has four bytes, and a reduction one axis of bytes") {
  const JudgedKernel k = kernel_of(byte_product(DType::U8, DType::I8), {});
  const Refs stores = prepare_nest(k.tree->src.back(), Machine{});
  CHECK(why_not(stores, {OptKind::Dot, kTerms, 8}) == "dot: a word has 4 bytes");
  CHECK(why_not(stores, {OptKind::Dot, {output_range(0)}, 4}) == "dot: axis o0 is not a reduction axis");
  const Refs packed = apply_opt(stores, {OptKind::Dot, kTerms, 4});
  CHECK(why_not(packed, {OptKind::Dot, {outer_part(kTerms.number)}, 4}) == "dot: the reduction has an axis of bytes");
}

TEST_CASE("options around a dot leave its sums as they are") {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 40; ++round) {
    const JudgedKernel k = kernel_of(byte_product(DType::U8, DType::I8), {});
    Refs stores = prepare_nest(k.tree->src.back(), Machine{});
    std::vector<Opt> opts{{OptKind::Dot, kTerms, 4}};
    const std::vector<Opt> more = random_opts(apply_opts(stores, opts), rng, 6);
    opts.insert(opts.end(), more.begin(), more.end());
    CAPTURE(to_string(opts));
    CHECK(dots_in(program_of(k, {opts})) > 0);
    CHECK(problem_with(k, {opts}) == "");
  }
}
