// An engine on a device with a queue: which runs follow each other without the host in between, and what becomes of the
// rows of a run that fails. The GPU (support/fake_metal.h) computes nothing, but does so when somebody waits for it.
#include <doctest/doctest.h>

#include "engine/engine.h"
#include "model/small_transformer.h"
#include "runtime/metal/metal_device.h"
#include "support/fake_metal.h"

using namespace smelt;
using namespace smelt::test;

namespace {

struct OnFake {
  FakeMetalLog log;
  GgufFile file;
  std::shared_ptr<Device> device;
  std::unique_ptr<Engine> engine;
  SequenceId id = 0;

  OnFake() : OnFake(GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take(), {.context = 256}) {}
  OnFake(GgufFile model, EngineOptions options) : file(std::move(model)) {
    MetalProperties properties = FakeMetal::usual();
    properties.buffer_bytes = size_t{1} << 40;
    device = open_metal_device(std::make_unique<FakeMetal>(log, properties), {.use_cache = false}).take();
    options.opened = device;
    options.prefill_chunk = 32;
    engine = Engine::open(file, options, {}).take();
    id = engine->start().take().id;
    log.waits = 0;
  }
  ~OnFake() { engine.reset(), device.reset(); }

  Result<std::vector<StepOutcome>> step(size_t tokens, bool is_generated, WantedLogits logits) {
    const std::vector<int32_t> ids(tokens, 7);
    const StepItem item{.sequence = id, .tokens = ids, .is_generated = is_generated, .logits = logits};
    return engine->step({&item, 1}, [&](size_t, int64_t, std::span<const float>) { ++seen; });
  }
  int seen = 0;  // rows of logits
};

}  // namespace

TEST_CASE("a prompt of several runs, and the logits behind it, are begun without the host waiting in between") {
  OnFake on;
  REQUIRE(on.step(40, false, WantedLogits::Last).ok());  // two runs
  CHECK(on.seen == 1);
  CHECK(on.engine->position(on.id) == 40);
  CHECK(on.log.waits == 1);
  // Those of longer prompts wait only for the run before the last one, as it has read its inputs then.
  REQUIRE(on.step(192, false, WantedLogits::None).ok());  // six runs
  CHECK(on.log.waits <= 1 + 6);
  CHECK(on.engine->position(on.id) == 232);
}

TEST_CASE("tokens whose logits nobody wants follow each other, and one that is sampled is waited for") {
  OnFake on;
  REQUIRE(on.step(3, true, WantedLogits::Last).ok());
  CHECK(on.seen == 1);
  CHECK(on.log.waits == 1);
  for (int i = 0; i < 3; ++i) REQUIRE(on.step(1, true, WantedLogits::Last).ok());
  CHECK(on.seen == 4);
  CHECK(on.log.waits == 4);
  CHECK(on.engine->position(on.id) == 6);
}

TEST_CASE("what a run that failed was to write is not in the sequence, nor what follows; the next step begins anew") {
  OnFake on;
  REQUIRE(on.step(5, false, WantedLogits::Last).ok());
  const uint64_t before = on.log.started.size();
  on.log.fails = before + 1;
  const auto failed = on.step(96, false, WantedLogits::Last);  // three runs; the first one fails
  REQUIRE(!failed.ok());
  CHECK(failed.error().message == "[metal] the GPU gave up");
  CHECK(on.engine->position(on.id) == 5);
  REQUIRE(on.step(96, false, WantedLogits::Last).ok());
  CHECK(on.engine->position(on.id) == 101);
}

TEST_CASE("runs with windows follow each other, too, in fewer local pages than a prompt has, and may fail") {
  const std::vector<std::byte> bytes = SmallTransformer(kSmallGptOss).writer.bytes();
  const auto open = [&] {
    return std::make_unique<OnFake>(GgufFile::open_memory(bytes).take(),
                                    EngineOptions{.context = 512, .kept_windows = 0});
  };
  const auto on = open();
  CHECK(on->engine->pool().local_pages() < on->engine->pool().pages());
  REQUIRE(on->step(5, true, WantedLogits::None).ok());
  on->log.waits = 0;
  REQUIRE(on->step(480, false, WantedLogits::None).ok());  // 15 runs
  CHECK(on->log.waits <= 1 + 15);
  CHECK(on->engine->position(on->id) == 485);

  const auto failing = open();
  REQUIRE(failing->step(5, true, WantedLogits::None).ok());
  failing->log.fails = on->log.started.size();  // the last run
  REQUIRE(!failing->step(480, false, WantedLogits::None).ok());
  CHECK(failing->engine->position(failing->id) == 0);  // what the end saw has made room for the others
  REQUIRE(failing->step(485, false, WantedLogits::None).ok());
  CHECK(failing->engine->position(failing->id) == 485);
}
