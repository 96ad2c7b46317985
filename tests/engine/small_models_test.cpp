// Small models of every architecture through compiled kernels, beside a direct forward pass in doubles: prompts and
// generated tokens, with exact activations and with those of 8 bits. docs/models.md has the figures that it prints.
#include "model/small_models.h"

#include <doctest/doctest.h>

#include <map>

#include "engine/session.h"
#include "model/random_model.h"
#include "model/reference_forward.h"
#include "support/compare_logits.h"
#include "support/effort.h"

using namespace smelt;
using namespace smelt::test;

namespace {

struct Case {
  std::string name;
  std::vector<std::byte> bytes;
  std::vector<Vector> wanted;  // logits after each token
};

std::vector<int> ids(int count = 45) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(i * 29 % 90);
  return list;
}

// Rows are whole blocks, and more tokens than a window.
constexpr Sizes kSizes{.hidden = 64,
                       .heads = 4,
                       .kv_heads = 2,
                       .width = 32,
                       .inner = 64,
                       .vocabulary = 96,
                       .window = 9,
                       .net_width = 32,
                       .type = GgufType::Q8_0};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (Traits traits : small_models()) {
    traits.rotated = traits.rotated * kSizes.width / kWidth;
    const SmallTransformer small(traits, kSizes);
    list.push_back({traits.architecture, small.writer.bytes(), small.logits(ids())});
  }
  for (const char* architecture : {"deepseek2", "glm4moelite"}) {
    Case latent{architecture, RandomModel({.architecture = architecture}).writer().bytes(), {}};
    const auto file = GgufFile::open_memory(latent.bytes);
    const Deepseek2Parameters parameters = read_deepseek2(*file, architecture).take();
    latent.wanted = ReferenceForward(*file, parameters).logits(ids());
    list.push_back(std::move(latent));
  }
  return list;
}

// After each token of a prompt, and after each of the last four, which come one at a time; in order of size.
std::vector<double> errors(const Case& model, bool in_bytes) {
  auto file = GgufFile::open_memory(model.bytes);
  const std::vector<int> all = ids(static_cast<int>(model.wanted.size()));
  auto session =
      Session::open(*file,
                    // In the groups of the file on every machine: random weights in wider blocks, as units for
                    // matrices take them, may be off by a little more than is allowed here.
                    {.device = "cpu,prompt_block=0",
                     .threads = 1,
                     .context = all.size() < 128 ? 128 : 2048,
                     .cache_type = in_bytes ? DType::U8 : DType::F32,
                     .quantise_activations = in_bytes},
                    {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  const size_t prompt_size = all.size() - 4;
  std::vector<double> list;
  const std::vector<int32_t> prompt(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(prompt_size));
  const Status status = (*session)->append_all(prompt, [&](int64_t i, std::span<const float> row) {
    list.push_back(relative_error(row, model.wanted[static_cast<size_t>(i)]));
  });
  REQUIRE(status.ok());
  for (size_t i = prompt_size; i < all.size(); ++i) {
    const auto logits = (*session)->extend(all[i]);
    REQUIRE(logits.ok());
    list.push_back(relative_error(*logits, model.wanted[i]));
  }
  REQUIRE(list.size() == all.size());
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

TEST_CASE("compiled kernels agree with the direct reference for every architecture") {
  for (const Case& model : some(cases())) {
    CAPTURE(model.name);
    // In 8 bits some token gets another expert: of these errors the median counts.
    const double exact = errors(model, false).back();
    const std::vector<double> all = errors(model, true);
    const double in_bytes = all[all.size() / 2];
    MESSAGE(model.name << ": relative error at most " << exact << ", with 8 bits " << in_bytes << " in the median");
    CHECK(exact < 1e-5);
    CHECK(in_bytes > exact);
    CHECK(in_bytes < 0.1);
  }
}

TEST_CASE("layers with windows read a long context from where a window begins") {
  constexpr int kTokens = 1400;
  for (const Traits& traits : small_models()) {
    if (!traits.has_windows() || traits.has_divisors) continue;  // others for long contexts
    CAPTURE(traits.architecture);
    Traits wide = traits;
    wide.rotated = kSizes.width;
    for (size_t window : {9, 300}) {
      CAPTURE(window);
      Sizes sizes = kSizes;
      sizes.window = window;
      SmallTransformer small(wide, sizes);
      small.writer.u32(traits.architecture + ".context_length", 2048);
      const Case model{traits.architecture, small.writer.bytes(), small.logits(ids(kTokens))};
      const std::vector<double> exact = errors(model, false), in_bytes = errors(model, true);
      MESSAGE(traits.architecture << ", window " << window << ": relative error at most " << exact.back()
                                  << ", with 8 bits " << in_bytes[kTokens / 2] << " in the median");
      CHECK(exact.back() < 1e-5);
      CHECK(in_bytes[kTokens / 2] < 0.1);
    }
  }
}

TEST_CASE("queries and keys whose neighbours are rotated lie split, so that lanes hold one value of each pair") {
  for (Traits traits : small_models()) {
    if (traits.architecture != "llama" && traits.architecture != "qwen2") continue;
    traits.rotated = kSizes.width;
    const std::vector<std::byte> bytes = SmallTransformer(traits, kSizes).writer.bytes();
    const auto file = GgufFile::open_memory(bytes);
    const auto session = Session::open(*file, {.threads = 1, .context = 128}, {});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    std::map<std::string, int> splits;
    for (const PlanLaunch& launch : (*session)->loaded().launches(PlanKind::Decode))
      for (const LaunchBuffer& b : launch.buffers)
        if (b.layout.is_packed()) splits[b.name] = b.layout.split;
    const int expected = traits.architecture == "llama" ? kSizes.width : 0;
    CHECK(splits.at("attn_q.weight") == expected);
    CHECK(splits.at("attn_k.weight") == expected);
    CHECK(splits.at("attn_v.weight") == 0);
  }
}
