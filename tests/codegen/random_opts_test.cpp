// Random lists of options, each legal after the ones before it, on the kernels that models are made of, for vectors and
// for blocks of threads: they compute what the kernel says, and give the bits of the heuristic's options.
#include <doctest/doctest.h>

#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

const Machine kThreads{.parallelism = Parallelism::Threads, .block_threads = 128, .warp_threads = kWarp};

void check_random_opts(Ref root, const Variables& variables = {}, int lists = 25) {
  const size_t kernels = make_schedule(root).kernels.size();
  for (size_t number = 0; number < kernels; ++number) {
    const JudgedKernel kernel = kernel_of(root, variables, number);
    const std::vector<Bytes> bits = bits_with(kernel, {}), bits_of_threads = bits_with(kernel, {}, kThreads);
    std::mt19937_64 rng(kernel.tree->key);
    for (int i = 0; i < lists; ++i) {
      const KernelOpts opts = random_opts_of(kernel.tree, rng, 1 + i % 10);
      CHECK_MESSAGE(problem_with(kernel, opts) == "", print(kernel.tree), to_text(opts));
      CHECK_MESSAGE(bits_with(kernel, opts) == bits, print(kernel.tree), to_text(opts));
      const KernelOpts threads = random_opts_of(kernel.tree, rng, 1 + i % 10, kThreads);
      CHECK_MESSAGE(problem_with(kernel, threads, kThreads) == "", print(kernel.tree), to_text(threads));
      CHECK_MESSAGE(bits_with(kernel, threads, kThreads) == bits_of_threads, print(kernel.tree), to_text(threads));
    }
  }
}

}  // namespace

TEST_CASE("a matrix product") { check_random_opts(sink({output(2, linear(input(0, {4, 32}), input(1, {16, 32})))})); }

TEST_CASE("a quantised matrix times a vector") {
  check_random_opts(sink({output(2, linear(input(0, {1, 64}), q4_0(input(1, {16, 2, 18}, DType::U8))))}));
}

TEST_CASE("a gated product with a residual") {
  const Tensor x = input(0, {1, 64}), gate = q4_0(input(1, {8, 2, 18}, DType::U8)),
               up = q4_0(input(2, {8, 2, 18}, DType::U8));
  check_random_opts(sink({output(4, input(3, {1, 8}) + silu(linear(x, gate)) * linear(x, up))}));
}

TEST_CASE("experts chosen by index") {
  const Tensor x = input(0, {1, 64}), raw = input(1, {4, 8, 2, 18}, DType::U8), ids = input(2, {4}, DType::I32);
  const Tensor chosen = gather(raw, ids % 4);  // [4, 8, 2, 18]
  const Tensor w = q4_0(reshape(chosen, {32, 2, 18}));
  check_random_opts(sink({output(3, reshape(linear(x, w), {4, 8}))}));
}

TEST_CASE("norms") { check_random_opts(sink({output(2, rms_norm(input(0, {3, 32}), input(1, {32})))})); }

TEST_CASE("a norm before a product") {
  check_random_opts(sink({output(3, linear(rms_norm(input(0, {1, 32}), input(1, {32})), input(2, {16, 32})))}));
}

TEST_CASE("softmax") { check_random_opts(sink({output(1, softmax(input(0, {4, 24}), 1))})); }

TEST_CASE("routes") {
  const Routes r = route(input(0, {1, 32}), input(1, {8, 32}), input(2, {8}), 4);
  check_random_opts(sink({output(3, r.experts), output(4, r.weights)}));
}

TEST_CASE("attention over chunks") {
  const Ref chunks = variable("chunks", 1, 4);
  const Tensor o = attention(input(0, {2, 24}), input(1, {256, 24}), input(2, {1}, DType::I32), Dim(chunks * 64), 16);
  check_random_opts(sink({output(3, o)}), {{"chunks", 2}}, 12);
}

TEST_CASE("attention over chunks with values of bytes") {
  const Ref chunks = variable("chunks", 1, 4);
  const Dim length = chunks * 64;
  const Tensor q = input(0, {2, 1, 16}), keys = slice(input(1, {256, 16}), 0, 0, length),
               bytes = slice(input(2, {256, 16}, DType::I8), 0, 0, length),
               scale = slice(input(3, {256, 1}), 0, 0, length);
  const Tensor score = unsqueeze(sum(q * unsqueeze(keys, 0), -1), 2);
  const Tensor o = softmax_average_of_bytes(score, unsqueeze(bytes, 0), unsqueeze(scale * scale, 0), 1);
  check_random_opts(sink({output(4, o)}), {{"chunks", 2}}, 12);
}

TEST_CASE("rows written to a cache") {
  const Tensor cache = input(0, {64, 24}), rows = input(1, {4}, DType::I32), x = input(2, {4, 16});
  check_random_opts(sink({write_rows(cache, rows, 8, x * 2.0).ref()}));
}

TEST_CASE("elementwise work of symbolic size") {
  const Ref n = variable("n", 1, 8);
  const Tensor x = input(0, {Dim(n * 4), 16});
  check_random_opts(sink({output(1, silu(x) + x)}), {{"n", 3}});
}
