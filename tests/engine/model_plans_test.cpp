// A model that is only looked at becomes what a session makes of it.
#include "engine/model_plans.h"

#include <doctest/doctest.h>

#include "codegen/instruction_views.h"
#include "engine/session.h"
#include "graph/node_count.h"
#include "runtime/devices.h"
#include "runtime/machines.h"
#include "support/effort.h"
#include "support/machine_kinds.h"

using namespace smelt;

namespace {

GgufFile small_model() { return GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take(); }

}  // namespace

TEST_CASE("a listing has the kernels and launches of a session") {
  const GgufFile file = small_model();
  const EngineOptions options{.threads = 1, .cache_type = DType::U8, .use_tuned = false};
  const auto session = Session::open(file, options, {});
  REQUIRE(session.ok());
  const auto device = open_device({.threads = 1}).take();
  const auto listing = ModelPlans::make(file, *device, options);
  REQUIRE(listing.ok());
  for (const PlanKind plan : {PlanKind::Decode, PlanKind::Prefill, PlanKind::Head}) {
    const auto ours = (*listing)->launches(plan), theirs = (*session)->loaded().launches(plan);
    REQUIRE(ours.size() == theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const KernelDescription a = (*listing)->kernel(ours[i].kernel), b = (*session)->loaded().kernel(theirs[i].kernel);
      CHECK(a.tree == b.tree);
      CHECK(a.opts == b.opts);
      CHECK(ours[i].layer == theirs[i].layer);
      CHECK(ours[i].launch.kernel == nullptr);
    }
  }
}

TEST_CASE("every kind of machine gets kernels as text, and assembly where LLVM makes some") {
  const GgufFile file = small_model();
  for (const Machine& m : test::some(test::machine_kinds())) {
    CAPTURE(m.name);
    const auto device = open_null_device(m.name).take();
    const auto listing = ModelPlans::make(file, *device, {});
    REQUIRE(listing.ok());
    CHECK((*listing)->kernel_count() > 30);
    const KernelListing first = (*listing)->listing(0, true);
    CHECK(!first.program.code.empty());
    CHECK(!first.source.text.empty());
    CHECK(first.assembly.text.empty() == (m.isa == Isa::Apple));
  }
}

TEST_CASE(
    "many tokens of a prompt have a plan of halves where a unit loads both sides, unless bits are to be the same") {
  const GgufFile file = small_model();
  const auto products_of_halves = [&](const std::string& machine, const EngineOptions& options, PlanKind plan) {
    const auto device = open_null_device(machine).take();
    const auto plans = ModelPlans::make(file, *device, options).take();
    int count = 0;
    for (const PlanLaunch& launch : plans->launches(plan))
      for (const Instruction& x : plans->listing(launch.kernel, false).program.code)
        count += x.kind == Inst::MatrixDot && matrix_shape(x).of_halves;
    return plans->launches(plan).empty() ? -1 : count;
  };
  CHECK(products_of_halves("sapphire-rapids", {}, PlanKind::LongPrefill) > 20);
  CHECK(products_of_halves("sapphire-rapids", {}, PlanKind::Prefill) == 0);
  CHECK(products_of_halves("sapphire-rapids", {.deterministic = true}, PlanKind::LongPrefill) == -1);
  CHECK(products_of_halves("sapphire-rapids", {.one_prompt_plan = true}, PlanKind::LongPrefill) == -1);
  CHECK(products_of_halves("sapphire-rapids", {.one_prompt_plan = true}, PlanKind::Prefill) == 0);
  CHECK(products_of_halves("h100", {.one_prompt_plan = true}, PlanKind::Prefill) > 20);
  CHECK(products_of_halves("sapphire-rapids", {.prefill_chunk = 512}, PlanKind::LongPrefill) == -1);
  CHECK(products_of_halves("sapphire-rapids", {.quantise_activations = false}, PlanKind::LongPrefill) == -1);
  CHECK(products_of_halves("zen4", {}, PlanKind::LongPrefill) == -1);
}

TEST_CASE("nodes live on, but a model that is opened again makes no new ones") {
  const GgufFile file = small_model();
  const auto device = open_null_device("zen4").take();
  const NodeCount before = node_count();
  REQUIRE(ModelPlans::make(file, *device, {.prefill_chunk = 128}).ok());
  const NodeCount once = node_count();
  REQUIRE(ModelPlans::make(file, *device, {.prefill_chunk = 128}).ok());
  CHECK(node_count().nodes == once.nodes);
  CHECK(once.nodes - before.nodes < 200'000);
  CHECK(once.bytes > once.nodes * 100);
}

TEST_CASE("a context that the model was not made for is refused") {
  const GgufFile file = small_model();
  const auto device = open_null_device("zen4").take();
  const auto listing = ModelPlans::make(file, *device, {.context = 1 << 24});
  REQUIRE(!listing.ok());
  CHECK(listing.error().message.find("[context]") == 0);
}
