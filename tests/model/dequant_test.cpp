#include "model/dequant.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "graph/eval.h"
#include "model/product.h"
#include "model/reference_dequant.h"

using namespace smelt;
using smelt::test::ReferenceBlock;

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<GgufType> supported_types() {
  std::vector<GgufType> types;
  for (uint32_t id = 0; id < 256; ++id)
    if (const GgufTypeInfo* info = find_type(id); info && info->supported) types.push_back(info->type);
  return types;
}

// The graph's values of `raw`, a row of blocks.
std::vector<float> values_of_graph(GgufType type, const Bytes& raw) {
  const GgufTypeInfo& info = info_of(type);
  const int64_t k = static_cast<int64_t>(raw.size() / info.bytes * info.elements);
  EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(raw))}}, .round_f32 = true};
  const Array array = eval(weight(0, type, {1}, k, "w").ref(), inputs).value;
  REQUIRE(array.shape == std::vector<int64_t>{1, k});
  return {array.values.begin(), array.values.end()};
}

std::vector<float> values_of_reference(GgufType type, const Bytes& raw) {
  const GgufTypeInfo& info = info_of(type);
  std::vector<float> values;
  for (size_t at = 0; at < raw.size(); at += info.bytes)
    for (uint32_t i = 0; i < info.elements; ++i) values.push_back(ReferenceBlock(raw.data() + at).value(type, i));
  return values;
}

// The first place where bits differ (NaN equals NaN), or "".
std::string difference(const std::vector<float>& got, const std::vector<float>& wanted) {
  if (got.size() != wanted.size()) return "sizes differ";
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(wanted[i]))
      return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " + std::to_string(wanted[i]);
  }
  return "";
}

void append(Bytes& to, const Bytes& block) { to.insert(to.end(), block.begin(), block.end()); }

// Blocks whose scales are infinite, NaN, subnormal, zero or huge, one field at a time, over random
// bytes. A scale of one byte is an exponent: its extremes.
Bytes blocks_with_special_scales(GgufType type, std::mt19937& random) {
  const std::vector<uint16_t> halves = {0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01};
  const std::vector<uint16_t> exponents = {0, 1, 2, 254, 255};
  Bytes result;
  for (const BlockField& field : block_fields(type)) {
    if (field.count != 1 || field.dtype == DType::U32) continue;
    for (uint16_t special : field.dtype == DType::U8 ? exponents : halves) {
      Bytes block(info_of(type).bytes);
      for (uint8_t& b : block) b = static_cast<uint8_t>(random());
      std::memcpy(block.data() + field.offset, &special, std::min(2, size_of(field.dtype)));
      append(result, block);
    }
  }
  return result;
}

}  // namespace

TEST_CASE("every type that can be computed with has a layout that fills its block") {
  const auto types = supported_types();
  CHECK(types.size() == 26);
  for (GgufType type : types) {
    CAPTURE(name_of(type));
    int bytes = 0;
    for (const BlockField& field : block_fields(type)) {
      CHECK(field.offset == bytes);
      bytes += field.count * size_of(field.dtype);
    }
    CHECK(bytes == static_cast<int>(info_of(type).bytes));
  }
}

TEST_CASE("stored blocks of real weights have their stored values, to the bit") {
  std::ifstream json_file(SMELT_SOURCE_DIR "/tests/data/quant_vectors.json");
  std::ifstream bin_file(SMELT_SOURCE_DIR "/tests/data/quant_vectors.bin", std::ios::binary);
  REQUIRE(json_file);
  REQUIRE(bin_file);
  const auto vectors = nlohmann::json::parse(json_file);
  const Bytes bin((std::istreambuf_iterator<char>(bin_file)), {});
  const size_t count = vectors["rows"].get<size_t>() * vectors["columns"].get<size_t>();
  for (const auto& entry : vectors["types"]) {
    CAPTURE(entry["name"].get<std::string>());
    const auto type = static_cast<GgufType>(entry["type"].get<uint32_t>());
    const auto raw = bin.begin() + entry["raw"]["offset"].get<size_t>();
    std::vector<float> wanted(count);
    std::memcpy(wanted.data(), bin.data() + entry["values"]["offset"].get<size_t>(), count * 4);
    CHECK(difference(values_of_graph(type, {raw, raw + entry["raw"]["bytes"].get<size_t>()}), wanted) == "");
  }
}

TEST_CASE("random and special blocks agree with the independent reference, to the bit") {
  std::mt19937 random(7);
  for (GgufType type : supported_types()) {
    CAPTURE(name_of(type));
    const size_t bytes = info_of(type).bytes;
    Bytes raw(2000 * bytes);
    for (uint8_t& b : raw) b = static_cast<uint8_t>(random());
    append(raw, Bytes(bytes, 0x00));
    append(raw, Bytes(bytes, 0xFF));
    append(raw, blocks_with_special_scales(type, random));
    CHECK(difference(values_of_graph(type, raw), values_of_reference(type, raw)) == "");
  }
}

TEST_CASE("blocks of fixed bytes have the values of another implementation, to the bit") {
  // Checksums of values by numpy, from the published tables and layouts of these formats.
  static constexpr std::pair<GgufType, uint64_t> kSums[] = {
      {GgufType::IQ3_S, 0x7E3BE34E4EA32F85u},   {GgufType::IQ3_XXS, 0x6DE3EBA4DCEDC10Du},
      {GgufType::IQ2_S, 0x3A41529D938E6561u},   {GgufType::IQ2_XS, 0x15A9E248DD335C69u},
      {GgufType::IQ2_XXS, 0xEDF541AF9989C3E5u}, {GgufType::IQ1_S, 0x42E770A7ABB9E465u},
      {GgufType::IQ1_M, 0x8049B841F3CAC965u},   {GgufType::TQ1_0, 0xE682BA6C16544325u},
      {GgufType::TQ2_0, 0x32A51B353B8EC325u},   {GgufType::NVFP4, 0x690DD1FBD5DFF325u}};
  for (const auto& [type, wanted] : kSums) {
    CAPTURE(name_of(type));
    Bytes raw(400 * info_of(type).bytes);  // every entry of a codebook is likely among them
    uint32_t state = 1;
    for (uint8_t& b : raw) b = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    uint64_t sum = 14695981039346656037u;  // FNV-1a over words
    for (float value : values_of_graph(type, raw))
      sum = (sum ^ (std::isnan(value) ? 0x7FC00000u : std::bit_cast<uint32_t>(value))) * 1099511628211u;
    CHECK(sum == wanted);
  }
}

TEST_CASE("rows gathered from the raw bytes of a three-dimensional weight keep their values") {
  constexpr int64_t kExperts = 5, kRows = 3, k = 512;
  const std::vector<int32_t> chosen = {4, 0, 4, 2};
  std::mt19937 random(8);
  for (GgufType type : {GgufType::Q4_K, GgufType::IQ4_NL, GgufType::BF16}) {
    CAPTURE(name_of(type));
    const size_t row_bytes = k / info_of(type).elements * info_of(type).bytes;
    Bytes raw(kExperts * kRows * row_bytes);
    for (uint8_t& b : raw) b = static_cast<uint8_t>(random() % 100);  // no exponents of infinity
    const Tensor ids = param(1, DType::I32, {4}, "ids");
    const Tensor values = dequantize(gather(raw_weight(0, type, {kExperts, kRows}, k, "w"), ids), type);
    EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(raw))}, {1, std::as_bytes(std::span(chosen))}},
                      .round_f32 = true};
    const Array array = eval(values.ref(), inputs).value;
    REQUIRE(array.shape == std::vector<int64_t>{4, kRows, k});
    Bytes expected;
    for (int32_t id : chosen) {
      const auto begin = raw.begin() + id * kRows * row_bytes;
      expected.insert(expected.end(), begin, begin + kRows * row_bytes);
    }
    CHECK(difference({array.values.begin(), array.values.end()}, values_of_reference(type, expected)) == "");
  }
}

namespace {

void check_products_with_blocks(int64_t most) {
  CAPTURE(most);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  constexpr int64_t kElements = 512;
  std::vector<float> values(kElements);
  for (float& v : values) v = uniform(random);
  const Activations x = quantise_activations(param(0, DType::F32, {1, kElements}, "x"), {}, {most});
  const int64_t blocks = x.scale.size(-1);
  const Tensor stand_for =
      reshape(reshape(cast(x.q, DType::F32), {1, blocks, kElements / blocks}) * unsqueeze(x.scale, 2), {1, kElements});
  for (GgufType type : supported_types()) {
    if (is_plain(type)) continue;
    CAPTURE(name_of(type));
    Bytes raw(kElements / info_of(type).elements * info_of(type).bytes);
    for (uint8_t& b : raw) b = static_cast<uint8_t>(random() & 0x37);  // scales of ordinary size
    const EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(values))}, {1, std::as_bytes(std::span(raw))}}};
    const Tensor row = raw_weight(1, type, {1}, kElements, "w", {}), terms = stand_for * dequantize(row, type, {});
    const double got = eval(product(x, row, type, {}).ref(), inputs).value.values.at(0),
                 wanted = eval(sum(terms, 1).ref(), inputs).value.values.at(0),
                 size = eval(sum(maximum(terms, -terms), 1).ref(), inputs).value.values.at(0);
    CHECK(size > 0);
    CHECK(std::abs(got - wanted) <= 1e-12 * size);
  }
}

}  // namespace

TEST_CASE("a product with 8-bit activations is the sum of what its integers and blocks stand for") {
  check_products_with_blocks(128);
  check_products_with_blocks(32);  // whose sums are known
}

TEST_CASE("the first blocks of rows are those of their first elements") {
  const Tensor x = param(0, DType::F32, {3, 256}, "x");
  std::vector<float> values(3 * 256);
  std::mt19937 random(7);
  for (float& v : values) v = static_cast<float>(random() % 1000) - 500;
  const EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(values))}}};
  const Activations some = first_of(quantise_activations(x, {}, {32}), 192),
                    alone = quantise_activations(slice(x, 1, 0, 192), {}, {32});
  REQUIRE(some.sums.ref());
  const auto same = [&](Tensor a, Tensor b) {
    return eval(a.ref(), inputs).value.values == eval(b.ref(), inputs).value.values;
  };
  CHECK(same(some.x, alone.x));
  CHECK(same(some.q, alone.q));
  CHECK(same(some.scale, alone.scale));
  CHECK(same(some.sums, alone.sums));
  CHECK(same(alone.sums, sum(cast(reshape(alone.q, {3, 6, 32}), DType::I32), -1)));
}

// Rows of x with one element that is not zero, which bytes stand for exactly: what a product makes of them are the
// weights.
TEST_CASE("bytes in wide blocks are within their bound of the weights that they stand for") {
  constexpr int64_t k = 512, kBlock = 256;
  std::vector<float> unit(k * k);
  for (int64_t i = 0; i < k; ++i) unit[i * k + i] = 127;
  const Tensor x = param(0, DType::F32, {k, k}, "x");
  std::mt19937 random(6);
  for (GgufType type : supported_types()) {
    if (is_plain(type)) continue;
    CAPTURE(name_of(type));
    Bytes raw(k / info_of(type).elements * info_of(type).bytes);
    for (uint8_t& b : raw) b = static_cast<uint8_t>(random() & 0xB7);  // scales of ordinary size and either sign
    const EvalInputs inputs{.buffers = {{0, std::as_bytes(std::span(unit))}, {1, std::as_bytes(std::span(raw))}}};
    const Tensor row = raw_weight(1, type, {1}, k, "w", {});
    const auto got =
        eval(product(quantise_activations(x, {}, {kBlock, true}), row, type, {}).ref(), inputs).value.values;
    const auto wanted = eval(dequantize(row, type, {}).ref(), inputs).value.values;
    REQUIRE(got.size() == wanted.size());
    for (int64_t block = 0; block < k; block += kBlock) {
      double greatest = 0, worst = 0;
      for (int64_t i = block; i < block + kBlock; ++i) {
        greatest = std::max(greatest, std::abs(wanted[i]));
        worst = std::max(worst, std::abs(got[i] / 127 - wanted[i]));
      }
      CHECK(greatest > 0);
      // The scale goes by the greatest value that the format can hold there, which is up to twice what it holds here.
      CHECK(worst <= 2 * greatest / 127 * (0.5 + 256.0 / 512));
    }
  }
}

TEST_CASE("the same weight in the same slot is the same graph") {
  CHECK(weight(3, GgufType::Q4_K, {8}, 256, "w") == weight(3, GgufType::Q4_K, {8}, 256, "w"));
}
