// A cache of bytes: what is written to a row is read from it, and lies where the header says.
#include "model/byte_cache.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "graph/eval.h"

using namespace smelt;

namespace {

constexpr int64_t kRows = 128, kWidth = 24;  // fewer columns than a full block of values

std::vector<std::byte> random_bytes(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::byte> out(static_cast<size_t>(n));
  for (std::byte& b : out) b = static_cast<std::byte>(rng());
  return out;
}

const std::vector<int32_t> kWritten{0, 5, 15, 16, 63, 64, 127};

std::vector<std::byte> as_bytes(const std::vector<int32_t>& v) {
  std::vector<std::byte> out(v.size() * 4);
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

Tensor rows() { return cast(param(1, DType::I32, {static_cast<int64_t>(kWritten.size())}, "rows"), DType::I64); }

Tensor written(int64_t width) { return param(2, DType::I8, {static_cast<int64_t>(kWritten.size()), width}, "q"); }

// The values of `after` and of the buffer written on the way.
EvalResult run(Tensor after, Tensor matrix, int64_t bytes, int64_t width) {
  const std::vector<std::byte> old = random_bytes(bytes, 1), row = as_bytes(kWritten),
                               q = random_bytes(static_cast<int64_t>(kWritten.size()) * width, 2);
  EvalInputs inputs;
  inputs.buffers = {{0, old}, {1, row}, {2, q}};
  return eval(sink({after.ref(), output(3, cast(matrix, DType::F32))}), inputs);
}

int8_t q_at(size_t token, int64_t column, int64_t width) {
  return static_cast<int8_t>(random_bytes(static_cast<int64_t>(kWritten.size()) * width,
                                          2)[token * static_cast<size_t>(width) + static_cast<size_t>(column)]);
}

}  // namespace

TEST_CASE("keys are read as they were written, and words of 16 positions lie side by side") {
  constexpr int64_t kColumn = 8, kHere = 12;
  const Tensor buffer = key_buffer(0, kRows, kWidth, "keys");
  const Tensor after = write_keys(buffer, rows(), kColumn, kWidth, written(kHere), CacheOrder::Lanes);
  const EvalResult result = run(after, keys_of(after, kWidth, CacheOrder::Lanes), kRows * kWidth, kHere);
  const std::vector<double>& matrix = result.outputs.at(3).values;
  std::vector<std::byte> expected = random_bytes(kRows * kWidth, 1);
  for (size_t t = 0; t < kWritten.size(); ++t)
    for (int64_t c = 0; c < kHere; ++c) {
      const int64_t row = kWritten[t], column = kColumn + c;
      const int value = q_at(t, c, kHere) + 128;
      CHECK(matrix[static_cast<size_t>(row * kWidth + column)] == value);
      expected[static_cast<size_t>(((row / 16 * (kWidth / 4) + column / 4) * 16 + row % 16) * 4 + column % 4)] =
          static_cast<std::byte>(value);
    }
  CHECK(result.written.at(0) == expected);
}

TEST_CASE("values are read as they were written, and words of columns lie side by side") {
  for (int64_t width : {kWidth, int64_t{128}}) {
    const Tensor buffer = value_buffer(0, kRows, width, "values");
    const Tensor after = write_values(buffer, rows(), width, written(width), CacheOrder::Lanes);
    const EvalResult result = run(after, values_of(after, width, CacheOrder::Lanes), kRows * width, width);
    const std::vector<double>& matrix = result.outputs.at(3).values;
    const int64_t side = width == 128 ? 64 : 8;  // the greatest common divisor of width and 64
    std::vector<std::byte> expected = random_bytes(kRows * width, 1);
    for (size_t t = 0; t < kWritten.size(); ++t)
      for (int64_t c = 0; c < width; ++c) {
        const int64_t row = kWritten[t];
        const int8_t value = q_at(t, c, width);
        CHECK(matrix[static_cast<size_t>(row * width + c)] == value);
        const int64_t block = row / 64 * (width / side) + c / side, word = block * 16 + row % 64 / 4;
        expected[static_cast<size_t>((word * side + c % side) * 4 + row % 4)] = static_cast<std::byte>(value);
      }
    CHECK(result.written.at(0) == expected);
  }
}

// Where the element of a row and a column of a unit's matrix lies: blocks of 16 x 32, as mma.m16n8k32 has them in the
// registers of a warp, but that a thread has two neighbouring rows.
size_t place_in_fragments(int64_t row, int64_t column, int64_t blocks_before) {
  const int64_t thread = row % 16 / 2 * 4 + column % 16 / 4, word = column % 32 / 16 * 2 + row % 2;
  return static_cast<size_t>((blocks_before * 32 + thread) * 16 + word * 4 + column % 4);
}

TEST_CASE("keys and values lie as fragments of a unit have them, and are read as they were written") {
  constexpr int64_t kWide = 96, kColumn = 32, kHere = 64;
  const auto tokens = kWritten.size();
  SUBCASE("keys: rows of the unit are positions") {
    const Tensor buffer = key_buffer(0, kRows, kWide, "keys");
    const Tensor after = write_keys(buffer, rows(), kColumn, kWide, written(kHere), CacheOrder::Fragments);
    const EvalResult result = run(after, keys_of(after, kWide, CacheOrder::Fragments), kRows * kWide, kHere);
    std::vector<std::byte> expected = random_bytes(kRows * kWide, 1);
    for (size_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < kHere; ++c) {
        const int64_t row = kWritten[t], column = kColumn + c;
        const int value = q_at(t, c, kHere) + 128;
        CHECK(result.outputs.at(3).values[static_cast<size_t>(row * kWide + column)] == value);
        expected[place_in_fragments(row, column, row / 16 * (kWide / 32) + column / 32)] =
            static_cast<std::byte>(value);
      }
    CHECK(result.written.at(0) == expected);
  }
  SUBCASE("values: they are columns") {
    const Tensor buffer = value_buffer(0, kRows, kWide, "values");
    const Tensor after = write_values(buffer, rows(), kWide, written(kWide), CacheOrder::Fragments);
    const EvalResult result = run(after, values_of(after, kWide, CacheOrder::Fragments), kRows * kWide, kWide);
    std::vector<std::byte> expected = random_bytes(kRows * kWide, 1);
    for (size_t t = 0; t < tokens; ++t)
      for (int64_t c = 0; c < kWide; ++c) {
        const int64_t row = kWritten[t];
        const int8_t value = q_at(t, c, kWide);
        CHECK(result.outputs.at(3).values[static_cast<size_t>(row * kWide + c)] == value);
        expected[place_in_fragments(c, row, row / 32 * (kWide / 16) + c / 16)] = static_cast<std::byte>(value);
      }
    CHECK(result.written.at(0) == expected);
  }
}

TEST_CASE("scales are read as they were written, and those of a head lie side by side") {
  constexpr int64_t kHeads = 3;
  const auto tokens = static_cast<int64_t>(kWritten.size());
  std::vector<float> scales(static_cast<size_t>(tokens * kHeads));
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i + 1);
  std::vector<std::byte> old(kRows * kHeads * sizeof(float)), row = as_bytes(kWritten),
                                                              written(scales.size() * sizeof(float));
  std::memcpy(written.data(), scales.data(), written.size());
  const Tensor buffer = scale_buffer(0, kRows, kHeads, "scales");
  const Tensor after = write_scales(buffer, rows(), param(2, DType::F32, {tokens, kHeads}, "scale"));
  EvalInputs inputs;
  inputs.buffers = {{0, old}, {1, row}, {2, written}};
  const EvalResult result = eval(sink({after.ref(), output(3, scales_of(after, kHeads))}), inputs);
  std::vector<float> lies(kRows * kHeads), expected(kRows * kHeads);
  std::memcpy(lies.data(), result.written.at(0).data(), result.written.at(0).size());
  for (size_t t = 0; t < kWritten.size(); ++t)
    for (int64_t head = 0; head < kHeads; ++head) {
      const float scale = scales[t * kHeads + static_cast<size_t>(head)];
      const int64_t at = kWritten[t];
      CHECK(result.outputs.at(3).values[static_cast<size_t>(at * kHeads + head)] == scale);
      expected[static_cast<size_t>((at / 64 * kHeads + head) * 64 + at % 64)] = scale;
    }
  CHECK(lies == expected);
}

TEST_CASE("bytes of a row are within half a step, and a row of zeros is zeros") {
  std::vector<float> x(2 * 32, 0);
  std::mt19937 rng(3);
  for (size_t i = 0; i < 32; ++i) x[i] = std::normal_distribution<float>(0, 3)(rng);
  std::vector<std::byte> raw(x.size() * 4);
  std::memcpy(raw.data(), x.data(), raw.size());
  const ByteRows b = to_bytes(param(0, DType::F32, {2, 32}, "x"));
  EvalInputs inputs;
  inputs.buffers = {{0, raw}};
  const EvalResult result = eval(sink({output(1, cast(b.q, DType::F32)), output(2, b.scale)}), inputs);
  const std::vector<double>&q = result.outputs.at(1).values, &scale = result.outputs.at(2).values;
  CHECK(scale[0] > 0);
  CHECK(scale[1] == 0);
  for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(q[i] * scale[i / 32] - x[i]) <= scale[i / 32] * 0.5001);
}
