// Linearize, by the programs that small kernels become.
#include "codegen/linearize.h"

#include <doctest/doctest.h>

#include "support/golden.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

// The program of a graph of one kernel, with options for its last nest.
std::string program_text(Ref root, std::vector<Opt> last) {
  const JudgedKernel kernel = kernel_of(root);
  KernelOpts opts(kernel.tree->src.size());
  opts.back() = std::move(last);
  CHECK(problem_with(kernel, opts) == "");
  return print(program_of(kernel, opts));
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("an elementwise kernel is one loop that workers share") {
  CHECK_GOLDEN(program_text(sink({output(1, input(0, {64}) * 2.0)}), {task("o0")}), "codegen/scale.program");
}

TEST_CASE("a matrix-vector product with lanes") {
  const Ref root = sink({output(2, linear(input(0, {1, 64}), input(1, {8, 64})))});
  CHECK_GOLDEN(program_text(root, {group("r1.1", 16), task("o1")}), "codegen/matvec.program");
}

TEST_CASE("a softmax reads its input twice") {
  CHECK_GOLDEN(program_text(sink({output(1, softmax(input(0, {4, 6}), 1))}), {task("o0")}), "codegen/softmax.program");
}

TEST_CASE("a top-k of two") {
  CHECK_GOLDEN(program_text(sink({output(1, top_k(input(0, {3, 8}), 2))}), {task("o0"), upcast("o1", 2)}),
               "codegen/top_2.program");
}

TEST_CASE("what does not change in a loop is computed before it") {
  // silu(x) of the row's own number is the same for all columns.
  const Tensor gain = input(0, {4, 1}), x = input(1, {4, 16});
  const std::string text = program_text(sink({output(2, silu(gain) * x)}), {task("o0")});
  CHECK(text.find("exp2") < text.find("loop", text.find("loop") + 1));
}

TEST_CASE("reductions over one axis share a loop") {
  const Tensor x = input(0, {4, 6});
  const Tensor both = sum(x, 1) + max(x, 1);
  const std::string text = program_text(sink({output(1, both)}), {task("o0")});
  CHECK(count(text, "= loop") == 2);  // rows, columns
  CHECK(count(text, "= load") == 1);
}

TEST_CASE("of several products that are added up, each is added before the next one is loaded") {
  const auto product = [](int i) { return input(2 * i, {64}) * input(2 * i + 1, {64}); };
  const std::string text = program_text(sink({output(6, product(0) + product(1) + product(2))}), {task("o0")});
  CHECK(count(text, "= fma") == 2);
  CHECK(count(text.substr(0, text.find("= fma")), "= load") == 4);
}

TEST_CASE("copies share what does not depend on them") {
  const Ref root = sink({output(2, linear(input(0, {4, 6}), input(1, {8, 6})))});
  const std::string text = program_text(root, {upcast("o0", 4)});
  CHECK(count(text, "= load") == 5);  // one weight, four rows of x
  CHECK(count(text, "= acc") == 4);
}

TEST_CASE("copies of sums of two kinds share words while they are there: all products with one, then the next") {
  // y[t, n] = sum over blocks of scale[t] * (d[n] * sum over groups of c[n] * sum(w[n] x[t]) - e[n] * sum(m[n] s[t])).
  const auto product = [](Tensor a, Tensor b) {
    return cast(sum(cast(a, DType::I32) * cast(b, DType::I32), -1), DType::F32);
  };
  const Tensor w = input(0, {1, 16, 2, 4, 8}, DType::U8), x = input(1, {4, 1, 2, 4, 8}, DType::I8),
               m = input(2, {1, 16, 2, 4}, DType::U8), s = input(3, {4, 1, 2, 4}, DType::I8),
               scale = input(4, {4, 1, 2}), d = input(6, {1, 16, 1}), e = input(7, {1, 16, 1});
  const Tensor y = sum((d * sum(input(5, {1, 16, 2, 4}) * product(w & 15, x), -1) - e * product(m, s)) * scale, -1);
  const JudgedKernel kernel = kernel_of(sink({output(9, y)}));
  KernelOpts opts(kernel.tree->src.size());
  const Opt dot{OptKind::Dot, AxisName("r1").id, 4};
  opts.back() = {dot, dot, unroll("r1.0", 2), unroll("r2", 4), upcast("o0", 4)};
  CHECK(problem_with(kernel, opts) == "");
  std::vector<int> words;  // of weights and minima, in the order of their products
  for (const Instruction& i : program_of(kernel, opts).code)
    if (i.kind == Inst::Value && i.op == Op::Dot4) words.push_back(i.src[1]);
  REQUIRE(words.size() == (4 * 2 + 1) * 4);
  for (size_t i = 0; i < words.size(); ++i) CHECK(words[i] == words[i / 4 * 4]);
}

TEST_CASE("neighbouring lanes are one load, others are gathered") {
  const Tensor x = input(0, {16, 8});
  const std::string rows = program_text(sink({output(1, max(x, 1))}), {group("r1", 8)});
  CHECK(count(rows, "lane_index") == 0);
  const std::string columns = program_text(sink({output(1, max(x, 0))}), {group("r1", 8)});
  CHECK(count(columns, "lane_index") == 1);
}

TEST_CASE("a large matrix that several outputs share is asked for ahead of time") {
  const Ref root = sink({output(2, linear(input(0, {8, 512}), input(1, {256, 512})))});
  CHECK(count(program_text(root, {group("r1.1", 16)}), "prefetch") == 0);  // the order is plain
  const std::string shared = program_text(root, {group("r1.1", 16), upcast("o0", 4)});
  CHECK(count(shared, "prefetch") == 4);  // one for each register of partial sums
  CHECK(count(shared, " ahead 6144") == 4);
  const std::string halves = program_text(root, {group("r1.1", 8), upcast("o0", 4)});
  const auto hints = count(halves, "prefetch");
  CHECK(hints >= 4);  // of 8 loads of half a line, in no order
  CHECK(hints < 8);
  const Ref small = sink({output(2, linear(input(0, {8, 512}), input(1, {16, 512})))});
  CHECK(count(program_text(small, {group("r1.1", 16), upcast("o0", 4)}), "prefetch") == 0);
}

TEST_CASE("a worker runs a local nest in full, with the first part that it takes") {
  const Ref root = sink({output(3, linear(rms_norm(input(0, {1, 32}), input(1, {32})), input(2, {8, 32})))});
  const JudgedKernel kernel = kernel_of(root);
  REQUIRE(kernel.tree->src.size() == 2);
  const std::string text = print(program_of(kernel, {{}, {task("o1")}}));
  CHECK(count(text, "scratch i64") + count(text, "= scratch") >= 1);
  CHECK(text.find("part i64 index") > text.find("store"));  // the local nest does not ask which part it is
  CHECK(text.find("part i64 begins") < text.find("store"));
}
