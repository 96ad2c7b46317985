// The small model on the device metal-shim: its kernels as a GPU of Apple would get them, every access checked, against
// the oracle.
#include <doctest/doctest.h>

#include "support/oracle.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr size_t kPrompt = 14, kGreedy = 6;  // tokens

Oracle small_model() {
  const fs::path root = SMELT_SOURCE_DIR;
  return load_oracle(root / "models/tiny-glm-Q4_K_M.gguf", root / "tests/data", "tiny-glm-Q4_K_M");
}

// After each prompt that is short enough.
std::vector<Difference> differences(bool quantise) {
  const Oracle o = small_model();
  const GgufFile file = GgufFile::open(o.model.string()).take();
  const auto session = Session::open(file,
                                     {.device = "metal-shim",
                                      .context = 64,
                                      .cache_type = quantise ? DType::U8 : DType::F32,
                                      .quantise_activations = quantise},
                                     {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  std::vector<Difference> all;
  for (const Json& prompt : o.json["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    if (ids.size() > kPrompt) continue;
    (*session)->reset();
    auto logits = (*session)->append(ids);
    REQUIRE_MESSAGE(logits.ok(), logits.error().message);
    all.push_back(difference(*logits, o.logits.data() + prompt["last"]["offset"].get<size_t>() / 4));
    if (!quantise) check_greedy(**session, prompt, *logits, kGreedy);
  }
  return all;
}

}  // namespace

TEST_CASE("the small model writes what the oracle writes, by kernels for Metal") {
  const std::vector<Difference> all = differences(false);
  CHECK(all.size() == 2);
  for (const Difference& d : all) {
    CHECK(d.same_top);
    CHECK(d.relative <= 1e-4);
    CHECK(d.greatest <= 1e-4);
    CHECK(d.kl <= 1e-8);
  }
}

TEST_CASE("with activations and cache of 8 bits it stays within 1e-3 of the oracle, by kernels for Metal") {
  double total = 0;
  const std::vector<Difference> all = differences(true);
  for (const Difference& d : all) total += d.kl;
  CHECK(total > 0);
  CHECK(total / static_cast<double>(all.size()) <= 1e-3);
}
