// Activations whose rows lie side by side: where each number is, and that products of them are the same.
#include "model/activation_layout.h"

#include <doctest/doctest.h>

#include <random>

#include "graph/eval.h"
#include "model/product.h"

using namespace smelt;

namespace {

constexpr int64_t kRows = 16, kElements = 256;

// The tensor in memory that views of it lead to.
Tensor placed(Tensor x) {
  Ref node = x.ref();
  while (node->op != Op::Place) node = node->src[0];
  return Tensor(node);
}

std::vector<double> values_of(Tensor x, const EvalInputs& inputs = {}) { return eval(x.ref(), inputs).value.values; }

}  // namespace

TEST_CASE("words of eight rows lie side by side") {
  const Tensor numbers = iota({kRows}, 0), x = unsqueeze(numbers, 1) * 100.0 + unsqueeze(iota({4}, 0), 0);
  const Tensor y = place_rows(x, {.rows = 8}, 2);
  CHECK(values_of(y) == values_of(x));
  const auto memory = values_of(placed(y));
  const std::vector<double> begin{0, 1, 100, 101, 200, 201}, second_word{2, 3, 102, 103};
  CHECK(std::equal(begin.begin(), begin.end(), memory.begin()));
  CHECK(std::equal(second_word.begin(), second_word.end(), memory.begin() + 16));
  CHECK(memory[32] == 800);
}

TEST_CASE("the two words of a row that a thread holds are neighbours") {
  const Tensor x = unsqueeze(iota({8}, 0), 1) * 100.0 + unsqueeze(iota({64}, 0), 0);
  const Tensor y = place_bytes(x, {.rows = 8});
  CHECK(values_of(y) == values_of(x));
  const auto memory = values_of(placed(y));
  const std::vector<double> begin{0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20};
  CHECK(std::equal(begin.begin(), begin.end(), memory.begin()));
  CHECK(memory[32] == 100);
  CHECK(memory[8 * 32] == 32);
}

TEST_CASE("rows may be along any axis") {
  const Tensor x = reshape(iota({3 * kRows * 64}, 0), {3, kRows, 64});
  CHECK(values_of(place_bytes(x, {.rows = 8, .axis = 1})) == values_of(x));
  CHECK(values_of(place_rows(x, {.rows = 8, .axis = 1})) == values_of(x));
}

TEST_CASE("axes of known sizes in front of the rows are one with their groups") {
  const Tensor x = reshape(iota({3 * kRows * 64}, 0), {3, kRows, 64});
  const Tensor y = place_bytes(x, {.rows = 8, .axis = 1});
  CHECK(placed(y).size(0) == 3 * kRows / 8);
  CHECK(values_of(placed(y))[8 * 64 * 2] == kRows * 64);
}

TEST_CASE("where only bytes lie side by side, scales of a row lie by themselves, those of even rows first") {
  const Tensor x = reshape(iota({3 * kRows * 4}, 0), {3, kRows, 4});
  const ActivationLayout layout{.rows = 8, .axis = 1, .is_of_bytes = true};
  const Tensor y = place_numbers(x, layout);
  CHECK(values_of(y) == values_of(x));
  CHECK(placed(y).size(0) == 3 * kRows / 8);
  const auto memory = values_of(placed(y));
  const std::vector<double> even{0, 1, 2, 3, 8, 9, 10, 11, 16}, odd{4, 5, 6, 7, 12, 13, 14, 15, 20};
  CHECK(std::equal(even.begin(), even.end(), memory.begin()));
  CHECK(std::equal(odd.begin(), odd.end(), memory.begin() + 16));
  CHECK(memory[32] == 32);
  CHECK(values_of(placed(place_numbers(x, {.rows = 8, .axis = 1}))) != memory);
}

TEST_CASE("where a row has few scales, or one, all lie by themselves in order") {
  const ActivationLayout layout{.rows = 8, .axis = 1, .is_of_bytes = true};
  for (const Tensor& x :
       {reshape(iota({3 * kRows * 2}, 0), {3, kRows, 2}), reshape(iota({3 * kRows}, 0), {3, kRows})}) {
    const Tensor y = place_numbers(x, layout);
    CHECK(values_of(y) == values_of(x));
    CHECK(values_of(placed(y)) == values_of(x));
    CHECK(placed(y).size(0) == 3 * kRows / 8);
  }
}

TEST_CASE("products do not depend on how activations lie") {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(kRows * kElements);
  for (float& v : values) v = uniform(random);
  const Tensor x = param(0, DType::F32, {kRows, kElements}, "x");
  // Blocks with one scale, with groups, with minima, with steps of them, with a table.
  for (GgufType type : {GgufType::Q4_0, GgufType::Q8_0, GgufType::Q5_1, GgufType::Q4_K, GgufType::Q6_K,
                        GgufType::IQ4_XS, GgufType::MXFP4}) {
    CAPTURE(name_of(type));
    std::vector<uint8_t> raw(3 * kElements / info_of(type).elements * info_of(type).bytes);
    for (uint8_t& b : raw) b = static_cast<uint8_t>(random() & 0x37);  // scales of ordinary size
    const EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(values))}, {1, std::as_bytes(std::span(raw))}}};
    const Tensor weight = raw_weight(1, type, {3}, kElements, "w", {});
    const auto with = [&](const Activations& a) { return values_of(product(a, weight, type, {}), inputs); };
    const auto expected = with(quantise_activations(x));
    CHECK(expected == with(quantise_activations(x, {.rows = 8})));
    // Rows that are brought together, in another order.
    const Tensor turned = flip(iota({kRows}, 0), 0);
    CHECK(with(rows_of(quantise_activations(x), turned)) ==
          with(rows_of(quantise_activations(x, {.rows = 8}), turned)));
  }
}
