// Steps whose tokens are chosen on the device: they give the tokens that the host would choose, and follow each other
// without it.
#include <doctest/doctest.h>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "runtime/cuda/cuda_device.h"
#include "support/fake_cuda.h"

using namespace smelt;

namespace {

using Tokens = std::vector<int32_t>;

const Tokens kPrompt = {1, 400, 27, 351, 9};

std::vector<SamplerOptions> samplers() {
  return {{.temperature = 0},
          {.temperature = 0.8f, .seed = 5},
          {.temperature = 1, .top_k = 0, .top_p = 0.9f, .min_p = 0, .seed = 6},
          {.temperature = 1.5f, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7}};
}

// A sequence that generates.
struct Text {
  Sampler sampler;
  SequenceId id = 0;
  Tokens tokens = {};
};

class OnProcessor {
 public:
  explicit OnProcessor(int64_t sequences) {
    engine = Engine::open(file, {.context = 96, .sequences = sequences, .chooses_tokens = true}, {}).take();
  }

  // With the first token, which the host chooses.
  Text start(const SamplerOptions& options) {
    Text text{Sampler(options), engine->start().take().id};
    for (int32_t token : kPrompt) text.sampler.accept(token);
    const StepItem item{.sequence = text.id, .tokens = kPrompt};
    REQUIRE(engine->step({&item, 1}, [&](size_t, int64_t, auto logits) { take(text, *text.sampler.sample(logits)); }));
    return text;
  }
  void take(Text& text, int32_t token) {
    text.sampler.accept(token);
    text.tokens.push_back(token);
  }
  void step_on_host(Text& text) {
    const StepItem item{.sequence = text.id, .tokens = {&text.tokens.back(), 1}, .is_generated = true};
    REQUIRE(engine->step({&item, 1}, [&](size_t, int64_t, auto logits) { take(text, *text.sampler.sample(logits)); }));
  }
  Engine::ChainItem item(const Text& text) {
    return {text.id, text.tokens.back(), *text.sampler.choice(engine->vocabulary_size(), 0)};
  }

  GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  std::unique_ptr<Engine> engine;
};

}  // namespace

TEST_CASE(
    "tokens that the device chooses are those that the host chooses, for sequences of any samplers side by side") {
  OnProcessor on(8);
  std::vector<Text> chained, alone;
  for (const SamplerOptions& options : samplers())
    chained.push_back(on.start(options)), alone.push_back(on.start(options));
  for (int i = 0; i < 12; ++i) {
    std::vector<Engine::ChainItem> items;
    for (Text& text : chained) items.push_back(on.item(text));
    if (i % 3 == 2) std::reverse(items.begin(), items.end());  // rows are nobody's own
    REQUIRE(*on.engine->begin(items));
    // A step behind it whose tokens nobody knows, of some of the sequences in another order.
    std::vector<Engine::ChainItem> behind;
    for (size_t k = items.size(); k-- > 1;)
      for (Text& text : chained)
        if (text.id == items[k].sequence)
          behind.push_back({text.id, {}, *text.sampler.choice(on.engine->vocabulary_size(), 1)});
    if (i % 2) REQUIRE(*on.engine->begin(behind));
    for (std::span<const Engine::ChainItem> step : {std::span(items), std::span(behind)}) {
      if (on.engine->begun() == 0) break;
      const auto chosen = on.engine->take().take();
      for (size_t k = 0; k < step.size(); ++k)
        for (Text& text : chained)
          if (text.id == step[k].sequence) on.take(text, **chosen[k]);
    }
  }
  for (size_t i = 0; i < chained.size(); ++i)
    while (alone[i].tokens.size() < chained[i].tokens.size()) on.step_on_host(alone[i]);
  for (size_t i = 0; i < chained.size(); ++i) {
    CAPTURE(i);
    CHECK(chained[i].tokens == alone[i].tokens);
    CHECK(on.engine->position(chained[i].id) == on.engine->position(alone[i].id));
    const auto a = on.engine->tokens(chained[i].id), b = on.engine->tokens(alone[i].id);
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

TEST_CASE("a context that is full takes no further token, and a token that was dropped is in no sequence") {
  OnProcessor on(1);
  Text text = on.start({.temperature = 0});
  const int64_t before = on.engine->position(text.id);
  const Engine::ChainItem first = on.item(text);
  REQUIRE(*on.engine->begin({&first, 1}));
  on.engine->drop(text.id);
  REQUIRE(on.engine->settle().ok());
  CHECK(on.engine->begun() == 0);
  CHECK(on.engine->position(text.id) == before);
  while (true) {
    const Engine::ChainItem item = on.item(text);
    if (!*on.engine->begin({&item, 1})) break;
    on.take(text, **on.engine->take().take()[0]);
  }
  CHECK(on.engine->position(text.id) == on.engine->context());
}

TEST_CASE("on a GPU a step is begun while the one that chooses its token is under way" *
          doctest::test_suite("generated")) {
  test::FakeCuda fake;
  fake.block_shared_bytes = 227 << 10;
  fake.memory = size_t{4} << 30;
  const CudaDriver driver = fake.driver();
  std::shared_ptr<Device> device = open_cuda_device(driver, {.use_cache = false}).take();
  const GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  auto engine = Engine::open(file, {.opened = device, .context = 256, .cache_type = DType::U8}, {}).take();
  REQUIRE(engine->chooses_tokens());
  REQUIRE(device->runs_under_way() >= Engine::kMostBegun);
  const SequenceId id = engine->start().take().id;
  Engine::ChainItem item{.sequence = id, .token = 7};
  fake.calls.clear();
  fake.launches.clear();
  REQUIRE(*engine->begin({&item, 1}));
  item.token.reset();
  REQUIRE(*engine->begin({&item, 1}));
  CHECK(fake.times_called("cuGraphLaunch") == 2);  // one for a token
  CHECK(fake.times_called("cuStreamSynchronize") == 0);
  REQUIRE(engine->take().ok());
  CHECK(fake.times_called("cuEventSynchronize") <= 3);  // of these two for pieces of pinned memory, long free
  CHECK(engine->position(id) == 1);
  REQUIRE(*engine->begin({&item, 1}));
  engine->drop(id);
  REQUIRE(engine->settle().ok());
  CHECK(engine->position(id) == 1);
  engine.reset(), device.reset();
  CHECK(fake.open_objects == 0);
}
