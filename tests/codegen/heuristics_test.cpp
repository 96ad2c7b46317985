// What the heuristic chooses for loops that are not products of weights.
#include "codegen/heuristics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

Dim tokens() { return Dim(variable("tokens8", 1, 8) * 8); }

struct Chosen {
  std::vector<Opt> opts;
  int count(OptKind kind) const {
    return static_cast<int>(std::count_if(opts.begin(), opts.end(), [&](const Opt& o) { return o.kind == kind; }));
  }
};

// Of a graph of one kernel with one nest, which must agree with the interpreter, too.
Chosen chosen_for(Ref root, const Variables& variables = {}) {
  const JudgedKernel kernel = kernel_of(root, variables);
  REQUIRE(kernel.tree->src.size() == 1);
  CHECK(problem_with(kernel, {}) == "");
  return {choose_opts(prepared(kernel.tree), {}, false)};
}

// Of one kind, all of them multiplied.
int64_t amount_of(const std::vector<Opt>& opts, OptKind kind) {
  int64_t amount = 1;
  for (const Opt& o : opts)
    if (o.kind == kind) amount *= o.amount;
  return amount;
}

// For a block of a GPU, which must agree with the interpreter, too.
std::vector<Opt> chosen_on_gpu(Ref root, const Variables& variables = {}) {
  const Machine gpu = *known_machine("h100");
  const JudgedKernel kernel = kernel_of(root, variables);
  const std::vector<Opt> opts = choose_opts(prepared(kernel.tree, 0, gpu), gpu, false);
  CHECK(problem_with(kernel, {opts}, gpu) == "");
  return opts;
}

// Tiles of 4 tokens, each with the matrix of its expert, as kernels leave unpacked weights: vectors of 16 rows of 4
// groups of 8 bytes. `with_minima`: each group takes away a number of its own times the sum of its activations.
Ref products_of_experts(bool with_minima, int64_t vectors = 4) {
  const Dim tiles = tokens();
  const int64_t rows = vectors * 16;
  const Tensor expert = slice(input(0, {64}, DType::I32), 0, 0, tiles) % 3;
  const auto of_rows = [&](int slot) {  // [tiles, 1, rows, 4]
    return unsqueeze(permute(gather(input(slot, {3, 4, rows}), expert), {0, 2, 1}), 1);
  };
  const Tensor raw = gather(input(1, {3, vectors, 4, 2, 16, 4}, DType::U8), expert),
               w = reshape(permute(raw, {0, 1, 4, 2, 3, 5}), {tiles, 1, rows, 4, 8}),
               x = slice(input(2, {64, 4, 1, 4, 8}, DType::I8), 0, 0, tiles),
               dots = cast(sum(cast(w, DType::I32) * cast(x, DType::I32), -1), DType::F32),
               y = sum(dots * of_rows(3), -1), sums = slice(input(5, {64, 4, 1, 4}), 0, 0, tiles);
  return sink({output(9, with_minima ? y - sum(of_rows(4) * sums, -1) : y)});
}

}  // namespace

TEST_CASE("tiles of experts read two vectors of rows that are half a matrix apart, if registers hold what that makes") {
  const Variables three{{"tokens8", 3}};
  const Chosen plain = chosen_for(products_of_experts(false), three);
  CHECK(amount_of(plain.opts, OptKind::Upcast) == 4 * 2);
  const auto cut =
      std::find_if(plain.opts.begin(), plain.opts.end(), [](const Opt& o) { return o.kind == OptKind::Split; });
  REQUIRE(cut != plain.opts.end());
  CHECK(cut->amount == 2);  // of 4 vectors
  CHECK(amount_of(chosen_for(products_of_experts(true), three).opts, OptKind::Upcast) == 4);
  Machine few;
  few.registers = 16;
  const JudgedKernel kernel = kernel_of(products_of_experts(false), three);
  CHECK(amount_of(choose_opts(prepared(kernel.tree), few, false), OptKind::Upcast) == 4);
}

TEST_CASE("tiles of experts go over all tokens with as many rows as a cache holds, whatever their number divides by") {
  const JudgedKernel kernel = kernel_of(products_of_experts(true, 22), {{"tokens8", 3}});
  const auto block_of = [&](int64_t vectors) {
    Machine machine;
    machine.cache_bytes = vectors * 4 * 2 * 64;
    const std::vector<Opt> opts = choose_opts(prepared(kernel.tree), machine, false);
    CHECK(problem_with(kernel, {opts}) == "");
    return amount_of(opts, OptKind::Split);
  };
  CHECK(block_of(11) == 11);
  CHECK(block_of(21) == 11);
}

TEST_CASE("floats that many outputs read again are multiplied in blocks of sums") {
  const Variables three{{"tokens8", 3}};
  const Tensor w = input(1, {16, 256});
  const Chosen prompt = chosen_for(sink({output(2, linear(input(0, {tokens(), 256}), w))}), three);
  CHECK(prompt.count(OptKind::Upcast) == 2);
  // One token reads each row of the matrix once, from memory.
  const Chosen token = chosen_for(sink({output(2, linear(input(0, {1, 256}), w))}));
  CHECK(token.count(OptKind::Upcast) == 0);
  // Nothing is shared by rows that are summed one by one.
  const Chosen squares = chosen_for(sink({output(2, mean_square(input(0, {tokens(), 256})))}), three);
  CHECK(squares.count(OptKind::Upcast) == 0);
}

TEST_CASE("no more loops become tasks than it takes, as each costs divisions in each task") {
  const Tensor x = input(0, {tokens(), 20, 6, 7});
  const Chosen chosen = chosen_for(sink({output(1, x + 1.0)}), {{"tokens8", 2}});
  CHECK(chosen.count(OptKind::Task) == 2);  // 8 tokens at least, times 20
}

TEST_CASE(
    "columns of a softmax become tasks, though each makes again what they have in common; those of a sum do not") {
  const Dim length = Dim(Dim(variable("chunks", 1, 8)).ref * 32);
  const Tensor o = attention(input(0, {4, 512}), input(1, {256, 512}), input(2, {1}, DType::I32), length, 512);
  const Schedule schedule = make_schedule(sink({output(9, o)}));
  const auto tasks = [](Ref tree) {
    return Chosen{choose_opts(prepared(tree, tree->src.size() - 1), {}, false)}.count(OptKind::Task);
  };
  CHECK(tasks(schedule.kernels.back().tree) == 2);
  const Tensor x = input(0, {4, 512}), w = input(1, {512});
  const Tensor scaled = x * w * unsqueeze(sum(x * x, -1), 1);
  CHECK(tasks(kernel_of(sink({output(2, scaled)})).tree) == 1);
}

TEST_CASE("bytes that are only copied go by vectors, others by words") {
  const auto bytes = [](Tensor x) { return chosen_for(sink({output(1, x)}), {{"tokens8", 1}}).count(OptKind::Pack); };
  const Tensor x = input(0, {tokens(), 64}, DType::U8);
  CHECK(bytes(x) == 0);
  CHECK(bytes(x ^ 128) == 1);
}

TEST_CASE("where lanes are threads, bytes that are copied or rounded go by words, too, but for a few of one token") {
  const Machine gpu = *known_machine("h100");
  const auto rounded = [](Tensor x) { return cast(floor(x * 3.0 + 0.5), DType::I8); };
  const auto words = [&](Tensor x, const Machine& machine) {
    const JudgedKernel kernel = kernel_of(sink({output(1, x)}), {{"tokens8", 1}});
    const std::vector<Opt> opts = choose_opts(prepared(kernel.tree, 0, machine), machine, false);
    CHECK(problem_with(kernel, {opts}, machine) == "");
    return Chosen{opts}.count(OptKind::Pack);
  };
  CHECK(words(input(0, {tokens(), 64}, DType::U8), gpu) == 1);
  CHECK(words(rounded(input(0, {tokens(), 64})), gpu) == 1);
  CHECK(words(rounded(input(0, {1, 64})), gpu) == 0);
  CHECK(words(rounded(input(0, {tokens(), 64})), Machine{}) == 0);
}

TEST_CASE("the two numbers of a rotation are computed side by side") {
  const Tensor x = input(0, {tokens(), 4, 2}), angle = input(1, {4});
  const Tensor turned = x * reshape(angle, {1, 4, 1}) + flip(x, 2) * 0.5;
  const Chosen chosen = chosen_for(sink({output(2, turned)}), {{"tokens8", 2}});
  CHECK(chosen.count(OptKind::Upcast) == 1);
}

TEST_CASE("products of many tokens with a matrix take the unit of a GPU, and leave the same bits") {
  Machine gpu = *known_machine("h100");
  const JudgedKernel kernel = kernel_of(sink({output(9, grouped_product(tokens(), 64, 3, 8, 8))}), {{"tokens8", 3}});
  const auto count = [&] {
    return Chosen{choose_opts(prepared(kernel.tree, 0, gpu), gpu, false)}.count(OptKind::Matrix);
  };
  CHECK(count() == 1);
  CHECK(problem_with(kernel, {}, gpu) == "");
  const std::vector<Bytes> with_unit = bits_with(kernel, {}, gpu);
  gpu.matrix_units.clear();
  CHECK(count() == 0);
  CHECK(bits_with(kernel, {}, gpu) == with_unit);
}

TEST_CASE("what a block of threads makes for itself takes few rounds, as each would wait for its loads") {
  const Machine gpu = *known_machine("h100");
  const JudgedKernel kernel = kernel_of(sink({output(1, max(input(0, {80, 128}), -1))}));
  const Refs stores = prepared(kernel.tree, 0, gpu);
  const std::vector<Opt> opts = choose_opts(stores, gpu, true);
  CHECK(problem_with(kernel, {opts}, gpu) == "");
  int64_t rounds = 1;
  for (Ref r : axes_of(apply_opts(stores, opts, lane_rules(gpu))))
    if (kind_of(r) == RangeKind::Loop) rounds *= *const_int(r->src[0]);
  CHECK(rounds <= 2);  // 8 warps have 80 rows
}

TEST_CASE("rounds of a block go side by side, also those of its tasks") {
  const Machine gpu = *known_machine("h100");
  const Tensor x = input(0, {8, 2048});
  const Tensor scale = scalar(1) / sqrt(sum(x * x, -1) + 1e-5);
  const JudgedKernel kernel = kernel_of(sink({output(2, x * unsqueeze(scale, 1) * input(1, {2048}))}));
  const Refs stores = prepared(kernel.tree, 0, gpu);
  const std::vector<Opt> opts = choose_opts(stores, gpu, false);
  CAPTURE(to_string(opts));
  for (Ref r : axes_of(apply_opts(stores, opts, lane_rules(gpu))))
    if (is_output_axis(stores, r)) CHECK(kind_of(r) != RangeKind::Loop);  // a task has 2048 results for 512 threads
  CHECK(problem_with(kernel, {opts}, gpu) == "");
}

TEST_CASE("a processor has several blocks where nothing is summed up, however few tokens there may be") {
  const Tensor x = input(0, {tokens(), 2048});
  const std::vector<Opt> opts = chosen_on_gpu(sink({output(1, x * x)}), {{"tokens8", 3}});
  CAPTURE(to_string(opts));
  CHECK(amount_of(opts, OptKind::Local) == 256);
}

TEST_CASE("a warp asks for many words of a sum at once") {
  const Tensor x = input(0, {tokens(), 2048});
  const std::vector<Opt> opts = chosen_on_gpu(sink({output(1, sum(x * x, -1))}), {{"tokens8", 3}});
  CAPTURE(to_string(opts));
  CHECK(amount_of(opts, OptKind::Unroll) == 32);
}

TEST_CASE("blocks of a product of floats are as long along tokens as along rows, or twice as long") {
  const Tensor x = input(0, {Dim(variable("tokens64", 1, 4) * 64), 1024}), w = input(1, {64, 1024});
  const std::vector<Opt> opts = chosen_on_gpu(sink({output(2, linear(x, w))}), {{"tokens64", 1}});
  CAPTURE(to_string(opts));
  std::vector<int64_t> sides;
  for (const Opt& o : opts)
    if (o.kind == OptKind::Local) sides.push_back(o.amount);
  CHECK(sides == std::vector<int64_t>{2, 4});
  CHECK(amount_of(opts, OptKind::Upcast) == 16);
}

TEST_CASE("a row of many, whose sum each warp makes for itself, has few warps") {
  const auto threads_of_row = [](Dim rows, const Variables& variables) {
    const Tensor x = input(0, {rows, 2048});
    const Tensor scale = scalar(1) / sqrt(sum(x * x, -1) + 1e-5);
    const std::vector<Opt> opts = chosen_on_gpu(sink({output(1, x * unsqueeze(scale, 1))}), variables);
    std::vector<Opt> locals;
    std::copy_if(opts.begin(), opts.end(), std::back_inserter(locals),
                 [](const Opt& o) { return o.kind == OptKind::Local; });
    CAPTURE(to_string(opts));
    REQUIRE(locals.size() >= 2);
    locals.resize(2);  // behind them, more rows
    return amount_of(locals, OptKind::Local);
  };
  CHECK(threads_of_row(Dim(variable("tokens8", 1, 512) * 8), {{"tokens8", 1}}) == 128);
  CHECK(threads_of_row(8, {}) == 512);
}
