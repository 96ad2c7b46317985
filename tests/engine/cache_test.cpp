// Kinds of attention cache: how far their logits are from those of a cache of floats, and that they are the same bits
// for any number of threads.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/session.h"

using namespace smelt;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = SMELT_SOURCE_DIR;
constexpr size_t kAtOnce = 40;  // tokens by the prefill plan; the others one by one

std::vector<int32_t> tokens(size_t one_by_one) {
  const auto json = nlohmann::json::parse(std::ifstream(kRoot / "tests/data/tiny-glm-Q4_K_M.json"));
  auto ids = json["prompts"][0]["ids"].get<std::vector<int32_t>>();
  const size_t wanted = kAtOnce + one_by_one;
  while (ids.size() < wanted) ids.insert(ids.end(), ids.begin(), ids.end());
  ids.resize(wanted);
  return ids;
}

std::vector<std::vector<float>> logits_of(const fs::path& model, DType cache, int threads, size_t one_by_one) {
  auto file = GgufFile::open(model.string());
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  auto opened = Session::open(
      *file, {.threads = threads, .context = 512, .cache_type = cache, .quantise_activations = false}, {});
  REQUIRE_MESSAGE(opened.ok(), opened.error().message);
  const auto session = opened.take();
  std::vector<std::vector<float>> out;
  const auto add = [&](Result<std::span<const float>> logits) {
    REQUIRE_MESSAGE(logits.ok(), logits.error().message);
    out.emplace_back(logits->begin(), logits->end());
  };
  const std::vector<int32_t> ids = tokens(one_by_one);
  add(session->append(std::span(ids).first(kAtOnce)));
  for (size_t i = kAtOnce; i < ids.size(); ++i) add(session->extend(ids[i]));
  return out;
}

double divergence(const std::vector<float>& expected, const std::vector<float>& got) {
  const auto log_sum = [](const std::vector<float>& x) {
    double sum = 0;
    for (float v : x) sum += std::exp(double(v));
    return std::log(sum);
  };
  const double ze = log_sum(expected), zg = log_sum(got);
  double kl = 0;
  for (size_t i = 0; i < expected.size(); ++i) kl += std::exp(expected[i] - ze) * ((expected[i] - ze) - (got[i] - zg));
  return kl;
}

std::vector<fs::path> models() {
  std::vector<fs::path> list{kRoot / "models/tiny-glm-Q4_K_M.gguf"};
  for (const char* more : {"tiny-glm/tiny-glm-F16.gguf", "tiny-ds2/tiny-ds2-F16.gguf"}) {
    const fs::path path = kRoot / "../shared/models" / more;
    if (fs::exists(path))
      list.push_back(path);
    else
      MESSAGE(path.string() << " is not there and not tested");
  }
  return list;
}

}  // namespace

TEST_CASE("caches of halves and of bytes keep the distributions within 1e-5 and 1e-3") {
  for (const fs::path& model : models()) {
    const auto expected = logits_of(model, DType::F32, 1, 60);
    for (const auto& [cache, bound] : {std::pair{DType::F16, 1e-5}, {DType::U8, 1e-3}}) {
      const auto got = logits_of(model, cache, 1, 60);
      double total = 0;
      for (size_t i = 0; i < got.size(); ++i) total += divergence(expected[i], got[i]);
      const double mean = total / static_cast<double>(got.size());
      MESSAGE(model.stem().string() << ", " << name_of(cache) << ": KL " << mean << " in the mean");
      CHECK(mean > 0);
      CHECK(mean <= bound);
    }
  }
}

TEST_CASE("every kind of cache gives the same bits for 1 to 4 threads" * doctest::test_suite("threads")) {
  constexpr size_t kTokens = 24;  // the context's second chunk of 64 begins in between
  for (DType cache : {DType::F32, DType::F16, DType::U8}) {
    const auto first = logits_of(models()[0], cache, 1, kTokens);
    for (int threads : {2, 3, 4}) {
      CAPTURE(threads);
      CHECK(logits_of(models()[0], cache, threads, kTokens) == first);
    }
  }
}
