// Whole graphs through every stage of the compiler against the interpreter.
#include <doctest/doctest.h>

#include "graph/rules_algebra.h"
#include "model/rope.h"
#include "model/sinks.h"
#include "support/run_graph.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

Tensor f32(int slot, std::vector<Dim> shape) { return param(slot, DType::F32, std::move(shape), "x"); }

Tensor normed(Tensor x, Tensor w) {
  const Tensor mean = sum(x * x, -1) * (1.0 / x.size(-1));
  return x * unsqueeze(scalar(1) / sqrt(mean + 1e-5), mean.rank()) * w;
}

size_t kernels(Ref root) { return make_schedule(root).kernels.size(); }

}  // namespace

TEST_CASE("elementwise graphs are one kernel") {
  const Tensor x = f32(0, {5, 48});
  const Ref root = sink({output(1, silu(x) * 2.0 + x)});
  CHECK(kernels(root) == 1);
  CHECK(compare(root, {.buffers = {{0, random_floats(5 * 48, 1)}}}).worst < 1e-6);
}

TEST_CASE("a matrix-vector product with its epilogue is one kernel") {
  const Tensor x = f32(0, {1, 256}), w = f32(1, {64, 256}), r = f32(2, {1, 64});
  const Ref root = sink({output(3, r + silu(linear(x, w)))});
  CHECK(kernels(root) == 1);
  CHECK(compare(root,
                {.buffers = {{0, random_floats(256, 1)}, {1, random_floats(64 * 256, 2)}, {2, random_floats(64, 3)}}})
            .worst < 1e-5);
}

TEST_CASE("a norm before a matrix-vector product stays on chip") {
  const Tensor x = f32(0, {1, 256}), g = f32(1, {256}), w = f32(2, {64, 256});
  const Ref root = sink({output(3, linear(normed(x, g), w))});
  CHECK(kernels(root) == 1);
  CHECK(compare(root,
                {.buffers = {{0, random_floats(256, 1)}, {1, random_floats(256, 4)}, {2, random_floats(64 * 256, 2)}}})
            .worst < 1e-5);
}

TEST_CASE("a norm of many rows is one kernel, the product another") {
  const Ref n = variable("n", 1, 8);
  const Tensor x = f32(0, {Dim(n * 4), 256}), g = f32(1, {256}), w = f32(2, {64, 256});
  const Ref root = sink({output(3, linear(normed(x, g), w))});
  CHECK(kernels(root) == 2);
  CHECK(compare(
            root,
            {.buffers = {{0, random_floats(12 * 256, 1)}, {1, random_floats(256, 4)}, {2, random_floats(64 * 256, 2)}},
             .variables = {{"n", 3}}})
            .worst < 1e-5);
}

TEST_CASE("softmax takes one kernel") {
  const Tensor x = f32(0, {6, 40});
  const Ref root = sink({output(1, softmax(x, 1))});
  CHECK(kernels(root) == 1);
  CHECK(compare(root, {.buffers = {{0, random_floats(240, 1)}}}).worst < 1e-6);
}

TEST_CASE("top-k breaks ties by the lower index") {
  const Tensor x = f32(0, {3, 16});
  std::vector<float> v(48);
  for (int i = 0; i < 48; ++i) v[i] = static_cast<float>((i * 7) % 5);
  const Ref root = sink({output(1, top_k(x, 4))});
  CHECK(compare(root, {.buffers = {{0, as_bytes(v)}}}).worst == 0);
}

TEST_CASE("attention over chunks is partial results and one combination") {
  const Ref chunks = variable("chunks", 1, 4);
  const Tensor q = f32(0, {2, 3, 64}), cache = f32(1, {1024, 80});
  const Tensor pos = param(2, DType::I32, {2}, "pos");
  const Dim length = chunks * 256;
  const Tensor rows = slice(cache, 0, 0, length);
  const Tensor keys = slice(rows, 1, 0, 64);
  const Tensor score = sum(unsqueeze(q, 2) * reshape(keys, {1, 1, length, 64}), -1) * 0.3;  // [T, H, S]
  const Tensor seen = less(reshape(cast(pos, DType::I64), {2, 1, 1}), reshape(iota({length}, 0), {1, 1, length}));
  const Tensor masked = where(seen, scalar(-1e30), score);
  const Tensor o = softmax_average(unsqueeze(masked, 3), reshape(keys, {1, 1, length, 64}), 2);
  const Ref root = sink({output(3, o)});
  MESSAGE(summary(make_schedule(root)));
  CHECK(kernels(root) == 2);
  const Inputs input{.buffers = {{0, random_floats(2 * 3 * 64, 1)},
                                 {1, random_floats(1024 * 80, 2)},
                                 {2, as_bytes(std::vector<int32_t>{5, 300})}},
                     .variables = {{"chunks", 2}}};
  CHECK(compare(root, input).worst < 1e-5);
  // Shorter ones, of which the first row sees nothing but the first.
  const auto other = open_device({.name = "cpu,chunk_positions=64,chunk_tasks=1", .threads = 2, .use_cache = false});
  REQUIRE(other.ok());
  CHECK(compare(root, input, **other).worst < 1e-5);
}

TEST_CASE("attention of many tokens goes over its chunks in one kernel") {
  const Ref chunks = variable("chunks", 1, 4), tokens8 = variable("tokens8", 1, 64);
  const Dim tokens = tokens8 * 8, length = chunks * 256;
  const Tensor o = attention_of_tokens(f32(0, {tokens, 20, 48}), f32(1, {1024, 48}),
                                       param(2, DType::I32, {tokens}, "positions"), length, 32);
  const Ref root = sink({output(3, o)});
  CHECK(kernels(root) == 1);
  std::vector<int32_t> positions(16);
  for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int32_t>(t * 47);
  const Comparison c = compare(
      root,
      {.buffers = {{0, random_floats(16 * 20 * 48, 1)}, {1, random_floats(1024 * 48, 2)}, {2, as_bytes(positions)}},
       .variables = {{"chunks", 3}, {"tokens8", 2}}});
  CHECK(c.worst < 1e-5);
}

TEST_CASE("sinks join the sums of an attention, and cost no further pass over its positions") {
  const Ref chunks = variable("chunks", 1, 4), tokens8 = variable("tokens8", 1, 64);
  const Dim length = chunks * 256;
  constexpr int64_t kHeads = 4, kWidth = 48;
  for (const bool many : {false, true}) {
    CAPTURE(many);
    const Dim tokens = many ? Dim(tokens8 * 8) : Dim(16);
    const Tensor q = f32(0, {tokens, kHeads, kWidth}), rows = slice(f32(1, {1024, kWidth}), 0, 0, length);
    const Tensor position = cast(param(2, DType::I32, {tokens}, "positions"), DType::I64);
    const Tensor keys = unsqueeze(unsqueeze(rows, 0), 0), sink_of_head = f32(4, {kHeads});
    const Tensor score = sum(unsqueeze(q, 2) * keys, -1) * 0.25;  // [T, H, S]
    const Tensor unseen = less(unsqueeze(position, 1), unsqueeze(iota({length}, 0), 0));
    const Tensor masked = where(unsqueeze(unseen, 1), scalar(std::numeric_limits<float>::lowest()), score);
    const Tensor average = softmax_average(unsqueeze(masked, 3), keys, 2);
    const Tensor o = with_sinks(average, masked, reshape(sink_of_head, {1, kHeads, 1}));
    const Ref root = sink({output(3, o)});
    CHECK(kernels(root) == (many ? 1 : 2));
    // By the definition: one more score.
    const Tensor top = maximum(max(masked, 2), unsqueeze(sink_of_head, 0));  // [T, H]
    const Tensor weight = exp(masked - unsqueeze(top, 2));
    const Tensor total = sum(weight, 2) + exp(unsqueeze(sink_of_head, 0) - top);
    const Tensor plain = sum(unsqueeze(weight, 3) * keys, 2) / unsqueeze(total, 2);
    std::vector<int32_t> positions(16);
    for (size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<int32_t>(t * 47);
    // One far above all scores, one far below.
    const Inputs input{.buffers = {{0, random_floats(16 * kHeads * kWidth, 1)},
                                   {1, random_floats(1024 * kWidth, 2)},
                                   {2, as_bytes(positions)},
                                   {4, as_bytes(std::vector<float>{0.5f, 300, -300, 2})}},
                       .variables = {{"chunks", 3}, {"tokens8", 2}}};
    const Comparison c = compare(root, input), wanted = compare(sink({output(3, plain)}), input);
    CHECK(c.worst < 1e-5);
    for (size_t i = 0; i < c.got.at(3).size(); ++i)
      CHECK(std::abs(c.got.at(3)[i] - wanted.expected.at(3)[i]) < 1e-5 * (1 + std::abs(wanted.expected.at(3)[i])));
  }
}

TEST_CASE("a part of a head turns that does not divide it") {
  constexpr int64_t kHeads = 3, kWidth = 32, kRotated = 24;
  const Dim many = Dim(variable("tokens8", 1, 64) * 8);
  for (const Dim tokens : {Dim(2), many}) {
    const Tensor x =
        linear(reshape(f32(0, {tokens, kHeads, 16}), {simplify(tokens.ref * kHeads), 16}), f32(1, {kWidth, 16}));
    const Angles at = {f32(2, {tokens, kWidth / 2}), f32(3, {tokens, kWidth / 2})};
    const Ref root = sink({output(4, rotate(reshape(x, {tokens, kHeads, kWidth}), at, RopeOrder::Halves, kRotated))});
    const Comparison c = compare(root, {.buffers = {{0, random_floats(16 * kHeads * 16, 1)},
                                                    {1, random_floats(kWidth * 16, 2)},
                                                    {2, random_floats(16 * kWidth / 2, 3)},
                                                    {3, random_floats(16 * kWidth / 2, 4)}},
                                        .variables = {{"tokens8", 2}}});
    CHECK(c.worst < 1e-5);
  }
}

TEST_CASE("attention over values of bytes is within its bound of the exact one") {
  constexpr int64_t kHeads = 3, kColumns = 32, kRows = 1024;
  const Ref chunks = variable("chunks", 1, 4);
  const Dim length = chunks * 256;
  const Tensor q = f32(0, {kHeads, 1, 16}), keys = slice(f32(1, {kRows, 16}), 0, 0, length);
  const Tensor bytes = slice(param(2, DType::I8, {kRows, kColumns}, "q"), 0, 0, length);
  const Tensor scale = slice(param(3, DType::F32, {kRows, 1}, "scale"), 0, 0, length);
  const Tensor score = sum(q * unsqueeze(keys, 0), -1);  // [H, S]
  const Tensor o = softmax_average_of_bytes(unsqueeze(score, 2), unsqueeze(bytes, 0), unsqueeze(scale, 0), 1);
  const Ref root = sink({output(4, o)});
  CHECK(kernels(root) == 2);
  std::vector<float> scales(kRows);
  for (size_t i = 0; i < kRows; ++i) scales[i] = 0.01f + 0.0001f * static_cast<float>(i % 50);
  std::vector<int8_t> values(kRows * kColumns);
  std::mt19937 rng(5);
  for (int8_t& v : values) v = static_cast<int8_t>(rng());
  const Comparison c = compare(root, {.buffers = {{0, random_floats(kHeads * 16, 1)},
                                                  {1, random_floats(kRows * 16, 2)},
                                                  {2, as_bytes(values)},
                                                  {3, as_bytes(scales)}},
                                      .variables = {{"chunks", 3}}});
  // A weight is at most 1 and a sum of weights at least 1, so a chunk's step is at most the greatest scale / 255, and
  // the error of its sum of 256 products at most 256 * 128 * step / 2. In the mean it is far less.
  const double step = 0.015 / 255;
  double squares = 0;
  for (size_t i = 0; i < c.got.at(4).size(); ++i) {
    const double error = std::abs(c.got.at(4)[i] - c.expected.at(4)[i]);
    CHECK(error <= 3 * 256 * 128 * step / 2);
    squares += error * error;
  }
  const double rms = std::sqrt(squares / static_cast<double>(c.got.at(4).size()));
  CHECK(rms > 0);
  CHECK(rms < 128 * step);
}
