// The small model on the device metal-shim: its kernels as a GPU of Apple would get them, every access checked, against
// the oracle.
#include <doctest/doctest.h>

#include "model/small_models.h"
#include "support/oracle.h"

using namespace smelt;
using namespace smelt::test;

namespace {

constexpr size_t kPrompt = 14, kGreedy = 3;  // tokens

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

TEST_CASE("runs that follow each other without the host in between leave what runs leave that it waits for") {
  SmallTransformer model(kSmallGptOss, {.hidden = 64, .width = 32, .inner = 64, .vocabulary = 96, .window = 40});
  const std::vector<std::byte> bytes = model.writer.bytes();
  const GgufFile file = GgufFile::open_memory(bytes).take();
  const auto engine = Engine::open(file, {.device = "metal-shim", .context = 64, .prefill_chunk = 32}, {}).take();
  const SequenceId id = engine->start().take().id;
  std::vector<int32_t> prompt(36);  // two runs
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(7 * i % 80 + 10);
  const std::vector<int32_t> generated = {11, 12};
  std::vector<float> last;
  const auto keep = [&](size_t, int64_t, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); };
  const auto step = [&](std::span<const int32_t> tokens, bool is_generated) {
    const StepItem item{.sequence = id, .tokens = tokens, .is_generated = is_generated};
    const auto done = engine->step({&item, 1}, keep);
    REQUIRE_MESSAGE(done.ok(), done.error().message);
    return last;
  };
  const std::vector<float> of_prompt = step(prompt, false), of_generated = step(generated, true);
  CHECK(engine->position(id) == 38);
  engine->rewind(id, 0);
  step(std::span(prompt).first(32), false);
  CHECK(step(std::span(prompt).subspan(32), false) == of_prompt);
  for (const int32_t& token : generated) step({&token, 1}, true);
  CHECK(last == of_generated);
  CHECK(std::any_of(last.begin(), last.end(), [](float x) { return x != 0; }));
}
