// Weights in other layouts: the same numbers come out, and what a search keeps is what a later start uses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "engine/compile.h"
#include "engine/model_passes.h"
#include "engine/profile.h"
#include "engine/session.h"
#include "engine/tune.h"
#include "engine/tune_layout.h"
#include "engine/tuned_options.h"
#include "runtime/devices.h"
#include "runtime/target.h"
#include "support/temp_folder.h"

using namespace smelt;

namespace {

const std::string kModel = std::string(SMELT_SOURCE_DIR) + "/models/tiny-glm-Q4_K_M.gguf";
const std::vector<int32_t> kPrompt = {1, 17, 400, 33, 256, 90, 7, 7, 1200, 5, 61};

std::unique_ptr<Session> open(const GgufFile& file, LayoutChoice layouts, bool quantise = true) {
  auto session = Session::open(file,
                               {.threads = 1,
                                .context = 256,
                                .cache_type = quantise ? DType::U8 : DType::F32,
                                .quantise_activations = quantise,
                                .prefill_chunk = 32,
                                .use_tuned = false,
                                .layouts = std::move(layouts)},
                               {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  return session.take();
}

// After a prompt and after one more token.
std::vector<float> logits_of(Session& session) {
  std::vector<float> all;
  session.reset();
  const auto add = [&](Result<std::span<const float>> logits) {
    REQUIRE(logits.ok());
    all.insert(all.end(), logits->begin(), logits->end());
  };
  add(session.append(kPrompt));
  add(session.extend(42));
  return all;
}

struct Role {
  std::string tensor;
  WeightLayout layout;
};

std::map<std::string, Role> roles_of(const Session& session) {
  std::map<std::string, Role> roles;
  for (const PlanLaunch& launch : session.loaded().launches(PlanKind::Decode))
    for (const LaunchBuffer& b : launch.buffers)
      if (!b.role.empty()) roles[b.role] = {b.tensor, b.layout};
  return roles;
}

SymbolValues symbols_of(const Session& session) { return PassSymbols{}.named(session.loaded().layout().token_tile); }

std::vector<WeightLayout> layouts_of(const GgufFile& file, const Role& role) {
  const GgufTensor& tensor = *file.find(role.tensor);
  return layouts_to_try(tensor.type, static_cast<int64_t>(tensor.dims[1]), machine_of(host_target()).lanes());
}

}  // namespace

TEST_CASE("a model gives the same logits with its weights in any layout") {
  const GgufFile file = GgufFile::open(kModel).take();
  // Of floats: where activations become 8-bit integers, a rounding may fall the other way.
  const auto session = open(file, {}, false);
  const std::vector<float> expected = logits_of(*session);
  const auto roles = roles_of(*session);
  REQUIRE(roles.size() > 5);
  // Every role in its n-th layout; some types have more of them than others.
  for (size_t n = 1; n < 5; ++n) {
    LayoutChoice layouts;
    for (const auto& [role, at] : roles) {
      const auto list = layouts_of(file, at);
      layouts[role] = list[std::min(n, list.size() - 1)];
    }
    const auto other = open(file, layouts, false);
    for (const auto& [role, at] : roles_of(*other)) CHECK(at.layout == layouts.at(role));
    const std::vector<float> got = logits_of(*other);
    REQUIRE(got.size() == expected.size());
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(got[i] - expected[i])));
    CAPTURE(n);
    CHECK(worst < 2e-3);
  }
}

TEST_CASE("a layout that does not fit, or of a role that no weight has, changes nothing") {
  const GgufFile file = GgufFile::open(kModel).take();
  const auto session = open(file, {});
  LayoutChoice layouts = {{"ffn_up.weight/Q4_0/7x5/q8", {32}}};
  for (const auto& [role, at] : roles_of(*session)) layouts[role] = {1 << 10};
  for (const auto& [role, at] : roles_of(*open(file, layouts)))
    CHECK((at.layout == roles_of(*session).at(role).layout || at.layout.interleave == 1 << 10));
}

TEST_CASE("a kernel over weights in another layout is judged by the kernel as it is" *
          doctest::test_suite("generated")) {
  const GgufFile file = GgufFile::open(kModel).take();
  const auto session = open(file, {});
  logits_of(*session);
  const std::vector<PlanLaunch> launches = session->loaded().launches(PlanKind::Decode);
  const auto device = open_device({.threads = 1, .use_cache = false}).take();
  const PlanSites sites(*session, PlanKind::Decode, symbols_of(*session), *device, 0);
  const auto with_role = [](const PlanLaunch& l) {
    return std::any_of(l.buffers.begin(), l.buffers.end(),
                       [](const LaunchBuffer& b) { return b.role.starts_with("ffn_down_exps.weight"); });
  };
  const auto at = std::find_if(launches.begin(), launches.end(), with_role);
  REQUIRE(at != launches.end());
  const auto weight =
      std::find_if(at->buffers.begin(), at->buffers.end(), [](const LaunchBuffer& b) { return !b.role.empty(); });
  for (const WeightLayout layout : layouts_of(file, {weight->tensor, weight->layout})) {
    if (layout == weight->layout) continue;
    CAPTURE(to_string(layout));
    const auto launch = static_cast<size_t>(at - launches.begin());
    const auto trial = LayoutSites::make(
        *session, file, sites, {.plan = PlanKind::Decode, .launch = launch, .role = weight->role, .layout = layout}, 1);
    REQUIRE_MESSAGE(trial.ok(), trial.error().message);
    const TuneSite &now = (*trial)->now(), &then = (*trial)->then();
    CHECK(kernel_hash(now.tree) != kernel_hash(then.tree));
    const auto outcome = tune_kernel(
        {.site = then, .now = &now, .device = *device, .limits = {.seconds = 3600, .compiled = 3, .beam = 1}});
    REQUIRE_MESSAGE(outcome.ok(), outcome.error().message);
    CHECK(outcome->counts.compiled > 0);
    CHECK_MESSAGE(outcome->counts.wrong == 0, outcome->wrong.front());
    CHECK(std::isfinite(outcome->after_us));
    // A session with that layout launches this very kernel.
    const auto later = open(file, {{weight->role, layout}});
    const auto then_launches = later->loaded().launches(PlanKind::Decode);
    CHECK(kernel_hash(later->loaded().kernel(then_launches[launch].kernel).tree) == outcome->kernel);
  }
}

TEST_CASE("what was packed wrongly does not pass for another layout") {
  const GgufFile file = GgufFile::open(kModel).take();
  const auto session = open(file, {});
  logits_of(*session);
  const auto device = open_device({.threads = 1, .use_cache = false}).take();
  const PlanSites sites(*session, PlanKind::Decode, symbols_of(*session), *device, 0);
  const std::vector<PlanLaunch> launches = session->loaded().launches(PlanKind::Decode);
  for (size_t i = 0; i < launches.size(); ++i) {
    const auto& buffers = launches[i].buffers;
    const auto weight = std::find_if(buffers.begin(), buffers.end(),
                                     [](const LaunchBuffer& b) { return b.role.starts_with("attn_output.weight"); });
    if (weight == buffers.end()) continue;
    const auto trial = LayoutSites::make(
        *session, file, sites, {.plan = PlanKind::Decode, .launch = i, .role = weight->role, .layout = {}}, 1);
    REQUIRE(trial.ok());
    TuneSite wrong = (*trial)->then();
    wrong.launches = (*trial)->now().launches;  // interleaved bytes, read as if they were the file's
    const auto outcome = tune_kernel({.site = wrong,
                                      .now = &(*trial)->now(),
                                      .device = *device,
                                      .limits = {.seconds = 3600, .compiled = 1, .beam = 1}});
    REQUIRE_FALSE(outcome.ok());
    CHECK(outcome.error().message.find("nothing was found that agrees") != std::string::npos);
    return;
  }
  FAIL("no such launch");
}

TEST_CASE("an entry of a layout comes back from its line, and only for its own role") {
  TunedEntry e{.kernel = role_hash("output.weight/Q6_K/64x256/q8"),
               .device = device_text(machine_of(host_target())),
               .compiler = compiler_text(),
               .before_us = 4,
               .after_us = 3,
               .name = "output.weight/Q6_K/64x256/q8",
               .opts = {},
               .layout = WeightLayout{16, FieldOrder::File}};
  const auto back = parse_tuned_entry(format_entry(e));
  REQUIRE_MESSAGE(back.ok(), back.error().message);
  CHECK(back->layout == e.layout);
  CHECK(format_entry(*back) == format_entry(e));
  CHECK(TunedOptions({&e, 1}, machine_of(host_target()), {}).layouts() == LayoutChoice{{e.name, *e.layout}});
  Machine other = machine_of(host_target());
  other.vector_bytes *= 2;
  CHECK(TunedOptions({&e, 1}, other, {}).layouts().empty());
  e.name = "output.weight/Q6_K/128x256/q8";
  CHECK_FALSE(parse_tuned_entry(format_entry(e)).ok());
}
