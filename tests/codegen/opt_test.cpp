// Kernel options: each changes how a kernel runs and never what it computes.
#include "codegen/opt.h"

#include <doctest/doctest.h>

#include "graph/rules_algebra.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

// out [8, 16] = x [8, 64] times w [16, 64]: axes o0 (rows of x), o1 (rows of w), r1.0 (reduction), r1.1 (partial sums)
Ref matmul() { return sink({output(2, linear(input(0, {8, 64}), input(1, {16, 64})))}); }

void check_opts(Ref root, std::vector<Opt> opts, const Variables& variables = {}) {
  const JudgedKernel kernel = kernel_of(root, variables);
  KernelOpts all(kernel.tree->src.size());
  all.back() = std::move(opts);
  CHECK_MESSAGE(problem_with(kernel, all) == "", to_text(all));
}

std::string why_not(Ref root, std::vector<Opt> opts, const Variables& variables = {}) {
  return why_not_last(prepared(kernel_of(root, variables).tree), std::move(opts));
}

}  // namespace

TEST_CASE("every option by itself keeps the result of a matrix product") {
  check_opts(matmul(), {});
  check_opts(matmul(), {local("o1", 8)});
  check_opts(matmul(), {upcast("o0", 4)});
  check_opts(matmul(), {upcast("o1", 16)});
  check_opts(matmul(), {group("r1.1", 16)});
  check_opts(matmul(), {unroll("r1.0", 4)});
  check_opts(matmul(), {split("r1.0", 2)});
  check_opts(matmul(), {front("o1")});
  check_opts(matmul(), {task("o0")});
}

TEST_CASE("options add up") {
  check_opts(matmul(), {group("r1.1", 8), unroll("r1.0", 2), upcast("o0", 4), task("o0.0")});
  check_opts(matmul(), {local("o1", 16), unroll("r1.0", 4), upcast("o0", 8)});
  check_opts(matmul(),
             {split("r1.0", 2), group("r1.1", 16), unroll("r1.01", 2), upcast("o1", 2), front("o1.0"), task("o1.0")});
}

TEST_CASE("an option can take a whole axis") {
  check_opts(matmul(), {group("r1.1", 16)});
  check_opts(matmul(), {unroll("r1.0", 4)});
  check_opts(matmul(), {upcast("o0", 8), upcast("o1", 16)});
  check_opts(matmul(), {upcast("o0", 2), upcast("o0.0", 2)});
}

TEST_CASE("what a reduction combines may be the index of its own loop") {
  const Ref greatest = sink({output(2, max(iota({8, 16}, 1), 1))});
  check_opts(greatest, {});
  check_opts(greatest, {upcast("o0", 2), task("o0.0")});
}

TEST_CASE("symbolic sizes can be split by what is known to divide them") {
  const Ref n = variable("n", 1, 8);
  const Ref root = sink({output(2, linear(input(0, {Dim(n * 4), 64}), input(1, {16, 64})))});
  check_opts(root, {group("r1.1", 16), upcast("o0", 4), task("o0.0")}, {{"n", 3}});
  CHECK(why_not(root, {upcast("o0", 8)}, {{"n", 3}}) == "upcast: 8 does not divide axis o0 of symbolic size");
}

TEST_CASE("an option that does not fit says why") {
  CHECK(why_not(matmul(), {upcast("o0", 4)}) == "");
  CHECK(why_not(matmul(), {upcast("o0", 7)}) == "upcast: 7 does not divide axis o0 of 8");
  CHECK(why_not(matmul(), {upcast("o0", 1)}) == "upcast: the amount must be 2 or more");
  CHECK(why_not(matmul(), {upcast("o4", 2)}) == "upcast: there is no axis o4 among o0 o1 r1.0 r1.1");
  CHECK(why_not(matmul(), {upcast("r1.0", 4)}) == "upcast: axis r1.0 is not an output axis");
  CHECK(why_not(matmul(), {group("o1", 4)}) == "group: axis o1 is not a reduction axis");
  CHECK(why_not(matmul(), {upcast("o0", 8), upcast("o0.1", 2)}) == "upcast: axis o0.1 is already taken");
  CHECK(why_not(matmul(), {task("o1")}) == "task: axis o1 is inside a serial loop");
  CHECK(why_not(matmul(), {front("o1"), task("o1")}) == "");
}

TEST_CASE("a float sum keeps its order") {
  CHECK(why_not(matmul(), {group("r1.0", 4)}) ==
        "group: axis r1.0 is not one of partial sums, and a sum keeps its order");
  CHECK(why_not(matmul(), {unroll("r1.1", 2)}) == "unroll: axis r1.1 is one of partial sums, which only group takes");
  CHECK(why_not(matmul(), {split("r1.0", 2), unroll("r1.00", 2)}) ==
        "unroll: a loop inside axis r1.00 is not written out, and a sum keeps its order");
  CHECK(why_not(matmul(), {split("r1.0", 2), unroll("r1.01", 2), unroll("r1.00", 2)}) == "");
  // Integers and maxima have none.
  const Ref sums = sink({output(1, sum(input(0, {4, 32}, DType::I32), 1))});
  CHECK(why_not(sums, {group("r1", 8)}) == "");
  CHECK(why_not(sums, {split("r1", 4), unroll("r1.0", 2)}) == "");
  CHECK(why_not(sink({output(1, max(input(0, {4, 32}), 1))}), {group("r1", 8)}) == "");
}

TEST_CASE("a nest has lanes along one axis only") {
  CHECK(why_not(matmul(), {local("o1", 8), local("o0", 4)}) != "");
  CHECK(why_not(matmul(), {local("o1", 16), group("r1.1", 8)}) == "group: the reduction already has lanes");
  CHECK(why_not(matmul(), {group("r1.1", 8), local("o1", 8)}) == "local: the nest already has lanes");
}

TEST_CASE("lanes are neighbours in memory") {
  CHECK(why_not(matmul(), {local("o0", 8)}) == "local: neighbours along axis o0 are not stored side by side");
}

TEST_CASE("reductions that are no sums keep to what they can") {
  const Ref best = sink({output(1, top_k(input(0, {4, 32}), 2))});
  CHECK(why_not(best, {unroll("r1", 4)}) == "unroll: a topk takes one element at a time");
  CHECK(why_not(best, {group("r1", 4)}) == "group: lanes of a topk are not combined");
  CHECK(why_not(best, {local("o1", 2)}) == "");
  check_opts(best, {upcast("o0", 4)});
  check_opts(best, {split("r1", 8)});
  check_opts(best, {upcast("o1", 2), task("o0")});

  const Ref soft = sink({output(2, softmax_average(input(0, {1, 32}), input(1, {16, 32}), 1))});
  CHECK(why_not(soft, {group("r1", 4)}) == "group: lanes of a softmax_sum are not combined");
  CHECK(why_not(soft, {unroll("r1", 4)}) ==
        "unroll: an online softmax takes one element at a time, and keeps its order");
}

TEST_CASE("lanes do the same work") {
  const Ref best = sink({output(1, reshape(top_k(input(0, {16, 8}), 1), {16}))});
  CHECK(why_not(best, {local("o0", 4)}) == "local: a topk takes one element at a time");
  const Tensor limit = input(1, {16, 1}, DType::I32), index = cast(iota({1, 8}, 1), DType::I32);
  const Ref masked = sink({output(2, sum(where(less(index, limit), input(0, {16, 8}), scalar(0)), 1))});
  CHECK(why_not(masked, {local("o0", 4)}) == "local: a loop inside has another length for each lane");
  check_opts(masked, {upcast("o0", 4)});
}

TEST_CASE("a norm has a reduction and an epilogue in one nest") {
  const Ref norm = sink({output(2, rms_norm(input(0, {4, 32}), input(1, {32})))});
  check_opts(norm, {local("o1", 16)});
  check_opts(norm, {group("r1.1", 16), upcast("o1", 4)});
  check_opts(norm, {unroll("r1.0", 2), task("o0")});
}

TEST_CASE("blocks of a format have their natural axes") {
  const Ref root = sink({output(2, linear(input(0, {1, 128}), q4_0(input(1, {8, 4, 18}, DType::U8))))});
  std::string sizes;
  for (Ref axis : axes_of(prepared(kernel_of(root).tree))) sizes += to_infix(axis->src[0]) + " ";
  CHECK(sizes == "8 4 2 16 ");  // rows; blocks, nibbles of a byte, bytes
  check_opts(root, {group("r1.11", 16), unroll("r1.01", 2)});
  check_opts(root, {group("r1.11", 16), unroll("r1.01", 2), unroll("r1.00", 2), upcast("o1", 4), task("o1.0")});
}

TEST_CASE("options are text") {
  const std::vector<Opt> opts{local("o1", 8), front("o0.0"), unroll("r1.01#2", 4)};
  CHECK(to_string(opts) == "local(o1,8) front(o0.0) unroll(r1.01#2,4)");
  CHECK(*parse_opts(to_string(opts)) == opts);
  CHECK(parse_opts("")->empty());
  CHECK(!parse_opts("stretch(o1,8)").ok());
  CHECK(!parse_opts("local(o1,8").ok());
  CHECK(!parse_opts("local(o1,8x)").ok());
}

TEST_CASE("what is known to divide a size") {
  const Ref n = variable("n", 1, 100);
  CHECK(known_divisor(constant(12)) == 12);
  CHECK(known_divisor(n) == 1);
  CHECK(known_divisor(n * 8) == 8);
  CHECK(known_divisor(n * 8 + constant(12)) == 4);
}

TEST_CASE("an axis is divided as often as there are numbers for its parts") {
  const auto stores = [](int64_t number) {
    const Ref axis = make_range(number, constant(8), RangeKind::Loop);
    const Ref in = make(Op::Param, DType::Void, {}, {.i = 1}), out = make(Op::Param, DType::Void);
    return Refs{make_store(out, axis * 4, make_load(DType::F32, in, axis * 4), {&axis, 1})};
  };
  const int64_t last = int64_t{1} << 47;  // the first number whose parts have none
  const auto halves = [](int64_t number) { return split(RangeId{number}, 4); };
  REQUIRE(smelt::why_not(stores(last - 1), halves(last - 1)) == "");
  CHECK(RangeView(axes_of(apply_opt(stores(last - 1), halves(last - 1)))[1]).number == inner_part(last - 1));
  CHECK(smelt::why_not(stores(last), halves(last)) ==
        "split: axis " + to_string(RangeId{last}) + " was divided too often");
}
