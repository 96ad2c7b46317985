#include "graph/eval.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "graph/steps.h"
#include "graph/tensor.h"

using namespace smelt;

namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

using Values = std::vector<double>;

Values values(Tensor x, const EvalInputs& inputs = {}) { return eval(x.ref(), inputs).value.values; }

const std::vector<float> kSix{0, 1, 2, 3, 4, 5};
const EvalInputs kInputs{.buffers = {{0, bytes_of(kSix)}}};
const Tensor x = param(0, DType::F32, {2, 3}, "x");

Values of_x(Tensor y) { return values(y, kInputs); }

}  // namespace

TEST_CASE("movement ops move elements") {
  CHECK(of_x(reshape(x, {3, 2})) == Values{0, 1, 2, 3, 4, 5});
  CHECK(of_x(permute(x, {1, 0})) == Values{0, 3, 1, 4, 2, 5});
  CHECK(of_x(reshape(permute(x, {1, 0}), {6})) == Values{0, 3, 1, 4, 2, 5});
  CHECK(of_x(slice(x, 1, 1, 2)) == Values{1, 2, 4, 5});
  CHECK(of_x(flip(x, 1)) == Values{2, 1, 0, 5, 4, 3});
  CHECK(of_x(expand(slice(x, 0, 1, 1), {2, 3})) == Values{3, 4, 5, 3, 4, 5});
  CHECK(of_x(flip(slice(permute(x, {1, 0}), 0, 1, 2), 1)) == Values{4, 1, 5, 2});
  CHECK(values(iota({2, 3}, 0)) == Values{0, 0, 0, 1, 1, 1});
  CHECK(values(iota({2, 3}, 1)) == Values{0, 1, 2, 0, 1, 2});
  CHECK(of_x(gather(x, iota({2}, 0) * -1.0 + 1.0)) == Values{3, 4, 5, 0, 1, 2});
}

TEST_CASE("a step goes on from what the one before has left, or begins anew") {
  const Tensor left = left_before(0, {2, 3});
  const auto found_by = [&](Tensor begins, int axis) {
    const Tensor found = where(begins, x, left);
    return eval(sink({output(7, found), leave(left, axis, found * 2.0 + x)}), kInputs).outputs.at(7).values;
  };
  const Tensor row = iota({2, 3}, 0), column = iota({2, 3}, 1);
  CHECK(found_by(less(row, scalar(2, DType::I64)), 0) == Values{0, 1, 2, 3, 4, 5});
  CHECK(found_by(less(row, scalar(1, DType::I64)), 0) == Values{0, 1, 2, 0, 3, 6});
  CHECK(found_by(less(column, scalar(1, DType::I64)), 1) == Values{0, 0, 1, 3, 9, 22});
  CHECK(found_by(less(column, scalar(0, DType::I64)), 1) == Values{0, 0, 1, 0, 3, 10});
}

TEST_CASE("elementwise ops broadcast") {
  CHECK(of_x(x * 2.0 + 1.0) == Values{1, 3, 5, 7, 9, 11});
  CHECK(of_x(x - slice(x, 0, 1, 1)) == Values{-3, -3, -3, 0, 0, 0});
  CHECK(of_x(where(less(x, scalar(3)), x, -x)) == Values{0, 1, 2, -3, -4, -5});
  CHECK(of_x(maximum(minimum(x, scalar(4)), scalar(1))) == Values{1, 1, 2, 3, 4, 4});
  CHECK(values(lut(cast(iota({3}, 0), DType::U8), {7, -1, 5}, DType::F32)) == Values{7, -1, 5});
}

TEST_CASE("integers wrap at their width") {
  Tensor i = iota({4}, 0);
  CHECK(values(cast(i * 100.0, DType::U8) + 100.0) == Values{100, 200, 44, 144});
  CHECK(values(cast(i * 100.0, DType::I8)) == Values{0, 100, -56, 44});
  CHECK(values((i - 3.0) / 2.0) == Values{-2, -1, -1, 0});
  CHECK(values((i - 3.0) % 2) == Values{1, 0, 1, 0});
  CHECK(values(cast(i, DType::U8) << 7) == Values{0, 128, 0, 128});
  CHECK(values((i - 4.0) >> 1) == Values{-2, -2, -1, -1});
}

TEST_CASE("bitcast regroups bytes along the last axis") {
  const std::vector<uint8_t> raw{0x00, 0x3c, 0x00, 0xc0, 1, 2, 3, 4};
  const EvalInputs inputs{.buffers = {{0, bytes_of(raw)}}};
  Tensor bytes = param(0, DType::U8, {2, 4}, "raw");
  CHECK(values(bitcast(slice(bytes, 0, 0, 1), DType::F16), inputs) == Values{1, -2});
  CHECK(values(bitcast(bytes, DType::U32), inputs) == Values{0xc0003c00, 0x04030201});
  CHECK(values(bitcast(slice(bytes, -1, 2, 2), DType::U16), inputs) == Values{0xc000, 0x0403});
  CHECK(values(bitcast(cast(scalar(1), DType::F32), DType::U32)) == Values{0x3f800000});
}

TEST_CASE("f16 and bf16 casts round to the nearest even value") {
  CHECK(values(cast(scalar(1 + 1.0 / 2048), DType::F16)) == Values{1});
  CHECK(values(cast(scalar(1 + 3.0 / 2048), DType::F16)) == Values{1 + 1.0 / 512});
  CHECK(values(cast(scalar(1 + 1.0 / 256), DType::BF16)) == Values{1});
  CHECK(values(cast(scalar(65520, DType::F64), DType::F16)) == Values{INFINITY});
  CHECK(values(cast(scalar(0x1p-25), DType::F16)) == Values{0});
  CHECK(values(cast(scalar(0x1.8p-24), DType::F16)) == Values{0x1p-23});
}

TEST_CASE("every f16 and bf16 pattern survives a round trip") {
  for (DType dtype : {DType::F16, DType::BF16})
    for (uint64_t bits = 0; bits < 65536; ++bits) {
      Scalar value = from_bits(bits, dtype);
      if (!std::isnan(value.f)) CHECK_EQ(to_bits(value, dtype), bits);
    }
}

TEST_CASE("f32 stays in double unless asked otherwise") {
  Tensor third = scalar(1, DType::F32) / scalar(3, DType::F32);
  CHECK(values(third) == Values{1.0 / 3});
  CHECK(values(third, {.round_f32 = true}) == Values{1.0f / 3});
}

TEST_CASE("reductions drop their axis") {
  CHECK(of_x(sum(x, 0)) == Values{3, 5, 7});
  CHECK(of_x(sum(x, 1)) == Values{3, 12});
  CHECK(of_x(sum(x * x, 1)) == Values{5, 50});
  CHECK(of_x(max(-x, 0)) == Values{0, -1, -2});
  CHECK(values(sum(cast(iota({300}, 0), DType::U8), 0)) == Values{double((255 * 128 + 44 * 43 / 2) % 256)});
}

TEST_CASE("top-k gives the best first and the lower index of equals") {
  const std::vector<float> scores{1, 5, 5, 2, 9, 0, 9, 9};
  const EvalInputs inputs{.buffers = {{0, bytes_of(scores)}}};
  CHECK(values(top_k(param(0, DType::F32, {2, 4}, "s"), 3), inputs) == Values{1, 2, 3, 0, 2, 3});
}

TEST_CASE("the online softmax equals the written-out one") {
  Values online = of_x(softmax_average(x, x, 1)), plain = of_x(sum(softmax(x, 1) * x, 1));
  for (size_t k = 0; k < plain.size(); ++k) CHECK(online[k] == doctest::Approx(plain[k]).epsilon(1e-12));
}

TEST_CASE("linear multiplies by the rows of a matrix") { CHECK(of_x(linear(slice(x, 0, 0, 1), x)) == Values{5, 14}); }

TEST_CASE("symbolic sizes take the value of their variable") {
  Ref n = variable("n", 1, 100);
  EvalInputs inputs{.buffers = {{0, bytes_of(kSix)}}, .variables = {{"n", 2}}};
  Tensor rows = param(0, DType::F32, {n, 3}, "x");
  CHECK(values(sum(rows, 0), inputs) == Values{3, 5, 7});
  CHECK(values(sum(iota({Dim(n)}, 0) + Tensor(n), 0), inputs) == Values{5});
}

TEST_CASE("a write changes a copy of its buffer and outputs are by slot") {
  Tensor seven = expand(reshape(scalar(7), {1, 1}), {1, 2});
  Tensor after = write_rows(x, iota({1}, 0) + 1.0, 1, seven);
  EvalResult result = eval(sink({after.ref(), output(3, sum(after, 1))}), kInputs);
  CHECK(result.outputs.at(3).values == Values{3, 17});
  std::vector<float> written(6);
  std::memcpy(written.data(), result.written.at(0).data(), 24);
  CHECK(written == std::vector<float>{0, 1, 2, 3, 7, 7});
  CHECK(kSix[4] == 4);
}

TEST_CASE("a matrix product does not hold its products") {
  Tensor a = cast(iota({8, 1, 256}, 2), DType::F32), w = cast(iota({1, 1024, 256}, 1), DType::F32);
  Values y = values(sum(a * w, -1));
  CHECK(y.size() == 8 * 1024);
  CHECK(y[1023] == 1023.0 * (255 * 256 / 2));
}
