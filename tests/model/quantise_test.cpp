// Values become blocks: those of other programs where the rule is theirs, else no worse ones.
#include "model/quantise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "graph/eval.h"
#include "model/dequant.h"
#include "support/block_formats.h"

using namespace smelt;

namespace {

using Bytes = std::vector<std::byte>;

Bytes blocks_of(GgufType type, const std::vector<float>& x) {
  Bytes bytes(x.size() / info_of(type).elements * info_of(type).bytes);
  quantise(type, x, bytes);
  return bytes;
}

std::vector<double> values_of(GgufType type, const Bytes& blocks) {
  const auto k = static_cast<int64_t>(blocks.size() / info_of(type).bytes * info_of(type).elements);
  return eval(weight(0, type, {1}, k, "w").ref(), {.buffers = {{0, blocks}}, .round_f32 = true}).value.values;
}

// Formats whose scales follow from the greatest value.
bool chooses_nothing(GgufType type) {
  return type == GgufType::Q8_0 || type == GgufType::MXFP4 || type == GgufType::TQ1_0 || type == GgufType::TQ2_0;
}

// Square root of the mean square of what is lost, against that of the values.
double loss_of(GgufType type, const Bytes& blocks, const std::vector<float>& x) {
  const std::vector<double> got = values_of(type, blocks);
  double lost = 0, all = 0;
  for (size_t i = 0; i < x.size(); ++i) lost += (got[i] - x[i]) * (got[i] - x[i]), all += double{x[i]} * x[i];
  return std::sqrt(lost / all);
}

// Rows of real weights, and their blocks of each type by an independent program.
struct Vectors {
  std::vector<float> x;
  std::vector<std::pair<GgufType, Bytes>> blocks;
};
Vectors stored_vectors() {
  std::ifstream json_file(SMELT_SOURCE_DIR "/tests/data/quant_vectors.json");
  std::ifstream bin_file(SMELT_SOURCE_DIR "/tests/data/quant_vectors.bin", std::ios::binary);
  const auto json = nlohmann::json::parse(json_file);
  const std::string bin((std::istreambuf_iterator<char>(bin_file)), {});
  Vectors vectors;
  for (const auto& entry : json["types"]) {
    const auto type = static_cast<GgufType>(entry["type"].get<uint32_t>());
    Bytes raw(entry["raw"]["bytes"].get<size_t>());
    std::memcpy(raw.data(), bin.data() + entry["raw"]["offset"].get<size_t>(), raw.size());
    if (type == GgufType::F32) {
      vectors.x.resize(raw.size() / 4);
      std::memcpy(vectors.x.data(), raw.data(), raw.size());
    }
    vectors.blocks.emplace_back(type, std::move(raw));
  }
  return vectors;
}

}  // namespace

TEST_CASE("blocks of one scale are those of llama.cpp's reference functions, byte by byte") {
  static constexpr std::pair<GgufType, uint64_t> kSums[] = {{GgufType::Q4_0, 0xCA211046273B4BBCu},
                                                            {GgufType::Q4_1, 0xA5AC3544D10D5979u},
                                                            {GgufType::Q5_0, 0x2AF125D234E971E3u},
                                                            {GgufType::Q5_1, 0xC17F4997D162C4F0u},
                                                            {GgufType::Q8_0, 0xBCAE1511C78DB8A1u}};
  const Vectors vectors = stored_vectors();
  for (const auto& [type, wanted] : kSums) {
    CAPTURE(name_of(type));
    uint64_t sum = 14695981039346656037u;  // FNV-1a
    for (std::byte b : blocks_of(type, vectors.x)) sum = (sum ^ static_cast<uint8_t>(b)) * 1099511628211u;
    CHECK(sum == wanted);
  }
}

// By the definition of the format: a power of two, 2^(e - 127), of which the greatest value is at least four times, and
// for each value the nearest of 16 levels, the first of equals. Levels of elements i and i + 16 share a byte.
Bytes mxfp4_by_definition(const std::vector<float>& x) {
  constexpr double kLevels[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  Bytes bytes;
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    double greatest = 0;
    for (size_t i = 0; i < 32; ++i) greatest = std::max(greatest, std::fabs(double{x[begin + i]}));
    int e = 0;  // of a block of zeros
    while (greatest > 0 && e < 254 && std::ldexp(8, e - 127) <= greatest) ++e;
    const auto nearest = [&](double value) {
      int best = 0;
      for (int level = 1; level < 16; ++level)
        if (std::fabs(std::ldexp(kLevels[level], e - 127) - value) <
            std::fabs(std::ldexp(kLevels[best], e - 127) - value))
          best = level;
      return best;
    };
    bytes.push_back(static_cast<std::byte>(e));
    for (size_t i = begin; i < begin + 16; ++i)
      bytes.push_back(static_cast<std::byte>(nearest(x[i]) | nearest(x[i + 16]) << 4));
  }
  return bytes;
}

TEST_CASE("blocks of MXFP4 are those of the format's definition, byte by byte") {
  const std::vector<float> weights = stored_vectors().x;
  CHECK(blocks_of(GgufType::MXFP4, weights) == mxfp4_by_definition(weights));
  std::mt19937 random(11);
  std::vector<float> x;
  for (int block = 0; block < 400; ++block) {
    const int size = static_cast<int>(random() % 200) - 100;
    for (int i = 0; i < 32; ++i)
      x.push_back(static_cast<float>(std::ldexp(double(random()) / double(random.max()) - 0.5, size)));
  }
  for (int i = 0; i < 32; ++i) x.push_back(0);
  // Halfway between levels, and the greatest value at a power of two and just below one.
  for (float greatest : {4.0f, std::nextafter(8.0f, 0.0f)})
    for (int i = 0; i < 32; ++i) x.push_back(i == 31 ? greatest : static_cast<float>(i - 16) / 4);
  CHECK(blocks_of(GgufType::MXFP4, x) == mxfp4_by_definition(x));
}

TEST_CASE("blocks of groups lose no more than those of another program that searches") {
  const Vectors vectors = stored_vectors();
  REQUIRE(vectors.x.size() == 8 * 256);
  for (const auto& [type, wanted] : vectors.blocks) {
    CAPTURE(name_of(type));
    REQUIRE(can_quantise_to(type));
    const bool has_rule = info_of(type).elements == 32 && type != GgufType::IQ4_NL;  // of the case above
    const double loss = loss_of(type, blocks_of(type, vectors.x), vectors.x);
    CHECK(loss <= loss_of(type, wanted, vectors.x) * (has_rule ? 1.1 : 1.005));
  }
}

TEST_CASE("entries of codebooks lose less than those that another program finds") {
  // ik_llama.cpp 8337e4c with importances of 1.
  static constexpr std::pair<GgufType, double> kOthers[] = {{GgufType::IQ1_S, 0.48407},   {GgufType::IQ1_M, 0.43820},
                                                            {GgufType::IQ2_XXS, 0.34745}, {GgufType::IQ2_XS, 0.29621},
                                                            {GgufType::IQ2_S, 0.24783},   {GgufType::IQ3_XXS, 0.18129},
                                                            {GgufType::IQ3_S, 0.13479}};
  const Vectors vectors = stored_vectors();
  const std::vector<float> alike(vectors.x.size(), 1.f);
  for (const auto& [type, other] : kOthers) {
    CAPTURE(name_of(type));
    Bytes blocks(vectors.x.size() / info_of(type).elements * info_of(type).bytes);
    quantise(type, vectors.x, blocks, alike);
    CHECK(loss_of(type, blocks, vectors.x) < 0.98 * other);
    CHECK(loss_of(type, blocks_of(type, vectors.x), vectors.x) < other);
  }
  // A scale for 16 values is better than one for 32.
  CHECK(loss_of(GgufType::NVFP4, blocks_of(GgufType::NVFP4, vectors.x), vectors.x) <
        0.75 * loss_of(GgufType::MXFP4, blocks_of(GgufType::MXFP4, vectors.x), vectors.x));
}

TEST_CASE("signs of eight values that have to be even give up the one that matters least") {
  for (GgufType type : {GgufType::IQ2_XXS, GgufType::IQ2_XS, GgufType::IQ3_XXS}) {
    CAPTURE(name_of(type));
    std::vector<float> x(256, 1.f), importance(256, 1.f);
    for (size_t i = 0; i < x.size(); i += 8) x[i] = -1, x[i + 3] = 0.2f, importance[i + 5] = 1e-4f;
    Bytes blocks(info_of(type).bytes);
    quantise(type, x, blocks, importance);
    const std::vector<double> got = values_of(type, blocks);
    for (size_t i = 0; i < x.size(); ++i) {
      CAPTURE(i);
      CHECK((got[i] < 0) == (i % 8 == 0 || i % 8 == 5));
    }
  }
}

TEST_CASE("ternary weights stay what they are; others are rounded in units of the greatest") {
  std::mt19937 random(6);
  std::vector<float> x(512);
  for (float& v : x) v = 0.375f * static_cast<float>(static_cast<int>(random() % 3) - 1);
  for (GgufType type : {GgufType::TQ1_0, GgufType::TQ2_0}) {
    CAPTURE(name_of(type));
    const std::vector<double> got = values_of(type, blocks_of(type, x));
    CHECK(std::equal(got.begin(), got.end(), x.begin()));
    std::vector<float> others(256, 0.f);
    others[0] = -2, others[1] = 1, others[2] = 0.99f, others[3] = -1, others[4] = -1.9f;
    const std::vector<double> rounded = values_of(type, blocks_of(type, others));
    CHECK(std::vector<double>(rounded.begin(), rounded.begin() + 6) == std::vector<double>{-2, 2, 0, -2, -2, 0});
  }
}

TEST_CASE("every format loses about as much of normal numbers as it has bits for, and nothing of zeros") {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> x(2048);
  for (float& v : x) v = normal(random);
  for (GgufType type : testing::block_formats()) {
    if (!can_quantise_to(type)) continue;
    CAPTURE(name_of(type));
    const double bits = 8.0 * info_of(type).bytes / info_of(type).elements;
    CHECK(loss_of(type, blocks_of(type, x), x) < 2.6 * std::exp2(-bits + 0.5));
    const std::vector<float> zeros(256);
    for (double v : values_of(type, blocks_of(type, zeros))) CHECK(v == 0);
    std::vector<float> spike(256);
    spike[77] = -3;
    const std::vector<double> got = values_of(type, blocks_of(type, spike));
    CHECK(got[77] == doctest::Approx(-3).epsilon(0.35));
  }
}

TEST_CASE("values that matter lose less, others more, and what matters alike is as good as before") {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> x(2048), importance(2048, 1.f);
  for (float& v : x) v = normal(random);
  for (size_t i = 0; i < x.size(); i += 4) importance[i] = 1000;
  for (GgufType type : testing::block_formats()) {
    if (!can_quantise_to(type) || chooses_nothing(type)) continue;
    CAPTURE(name_of(type));
    const auto loss = [&](const std::vector<float>& weights, bool of_great) {
      Bytes blocks(x.size() / info_of(type).elements * info_of(type).bytes);
      quantise(type, x, blocks, weights);
      const std::vector<double> got = values_of(type, blocks);
      double lost = 0;
      for (size_t i = 0; i < x.size(); ++i)
        if ((i % 4 == 0) == of_great) lost += (got[i] - x[i]) * (got[i] - x[i]);
      return lost;
    };
    CHECK(loss(importance, true) < 0.93 * loss({}, true));
    const std::vector<float> alike(x.size(), 3.f), none(x.size(), 0.f);
    CHECK(loss(alike, true) + loss(alike, false) < 1.02 * (loss({}, true) + loss({}, false)));
    CHECK(loss(none, true) < 1.2 * loss({}, true));  // of a column that was never used nothing is known
  }
}

TEST_CASE("values are read as the graph computes them") {
  std::mt19937 random(5);
  for (GgufType type : {GgufType::F32, GgufType::F16, GgufType::BF16, GgufType::Q8_0}) {
    REQUIRE(can_quantise_from(type));
    std::vector<float> x(256), got(256);
    for (float& v : x) v = std::normal_distribution<float>()(random);
    const Bytes blocks = blocks_of(type, x);
    read_values(type, blocks, got);
    const std::vector<double> wanted = values_of(type, blocks);
    CHECK(std::equal(got.begin(), got.end(), wanted.begin()));
  }
  CHECK(!can_quantise_from(GgufType::Q4_K));
  CHECK(!can_quantise_to(GgufType::Q8_K));
}
