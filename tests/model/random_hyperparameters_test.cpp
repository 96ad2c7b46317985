// Files of any hyper-parameters: a sentence, or right logits.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/verify.h"
#include "model/random_model.h"
#include "model/reference_forward.h"
#include "model/small_models.h"
#include "model/small_transformer_runs.h"

using namespace smelt;
using namespace smelt::test;

namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  int from(int low, int high) { return low + int(random_() % unsigned(high - low + 1)); }
  double real(double low, double high) { return low + (high - low) * double(random_()) / double(random_.max()); }
  uint32_t any() { return uint32_t(random_()); }

 private:
  std::mt19937 random_;
};

// Most of them are possible; some are not.
Sizes random_sizes(Dice& dice) {
  Sizes s;
  s.hidden = dice.from(1, 12) * (dice.from(0, 3) ? 4 : 3);
  s.layers = dice.from(1, 4);
  s.kv_heads = dice.from(1, 3);
  s.heads = s.kv_heads * dice.from(1, 3) + (dice.from(0, 9) == 0);
  s.width = dice.from(0, 4) ? 16 : dice.from(1, 10) * 4;
  s.inner = dice.from(1, 50);
  s.epsilon = std::pow(10, dice.real(-7, -1));
  s.base = std::pow(10, dice.real(0.5, 6));
  s.local_base = std::pow(10, dice.real(0.5, 6));
  s.window = size_t(dice.from(1, 9));
  s.period = dice.from(1, 5);
  s.experts = dice.from(1, 9);
  s.used = dice.from(1, s.experts + (dice.from(0, 9) == 0));
  s.net_keys = dice.from(1, 3);
  s.net_values = s.net_keys * dice.from(1, 3) + (dice.from(0, 9) == 0);
  s.net_width = dice.from(1, 3) * 4;
  s.taps = dice.from(2, 6);
  return s;
}

// Of models with latents. F32, so that widths need not be whole blocks.
Variant random_variant(Dice& dice) {
  Variant v{.type = GgufType::F32, .seed = dice.any()};
  v.layers = dice.from(1, 3);
  v.dense_layers = dice.from(0, v.layers);
  v.q_lora = dice.from(0, 2) * dice.from(1, 9) * 4;
  v.sigmoid = dice.from(0, 1), v.bias = v.sigmoid && dice.from(0, 1), v.normalise = dice.from(0, 1);
  v.yarn = dice.from(0, 1), v.fused_kv_b = dice.from(0, 1), v.tied = dice.from(0, 1);
  v.shared_experts = dice.from(0, 2);
  v.groups = dice.from(1, 3), v.groups_used = dice.from(1, v.groups);
  v.hidden = dice.from(1, 12) * (dice.from(0, 3) ? 4 : 3);
  v.heads = dice.from(1, 4);
  v.latent = dice.from(1, 12) * 4, v.nope = dice.from(1, 8) * 4, v.value = dice.from(1, 8) * 4;
  v.rope = dice.from(0, 9) ? dice.from(1, 8) * 2 : 3;
  v.dense = dice.from(1, 50), v.expert = dice.from(1, 50);
  v.experts = v.groups * dice.from(2, 4);
  v.used = dice.from(1, int(v.experts) + (dice.from(0, 9) == 0));
  return v;
}

bool is_sentence(const std::string& message) {
  return message.starts_with("[") && message.find('\n') == std::string::npos &&
         message.find('\x1b') == std::string::npos;
}

// What read_model() says: "" where it takes the file. Then all graphs of the model keep the rules of their phase.
std::string verdict_on(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.bytes();
  const auto file = GgufFile::open_memory(bytes);
  if (!file) return file.error().message;
  const auto model = read_model(*file);
  if (!model) return model.error().message;
  const ModelRunner runner(*file, **model, kPages, 5);
  CHECK_FALSE(fault_in((*model)->embed(*file, runner.shape()).root, Phase::Tensor));
  for (int64_t layer = 0; layer < (*model)->numbers().layers; ++layer)
    CHECK_FALSE(fault_in((*model)->block(*file, runner.shape(), layer).root, Phase::Tensor));
  CHECK_FALSE(fault_in((*model)->head(*file, runner.shape()).root, Phase::Tensor));
  return "";
}

// Tries random changes of keys. Returns how many files were refused.
int refused_after_changes(const GgufWriter& good, Dice& dice, int tries) {
  int refused = 0;
  for (int i = 0; i < tries; ++i) {
    GgufWriter changed = good;
    for (int changes = dice.from(1, 2); changes > 0; --changes) change_key(changed, dice.any(), dice.any(), dice.any());
    const std::string verdict = verdict_on(changed);
    CAPTURE(verdict);
    CHECK((verdict.empty() || is_sentence(verdict)));
    refused += !verdict.empty();
  }
  return refused;
}

}  // namespace

TEST_CASE("random hyper-parameters give right logits, or a sentence") {
  Dice dice(4711);
  int right = 0, all = 0;
  for (const Traits& traits : small_models()) {
    for (int i = 0; i < 3; ++i, ++all) {
      const SmallTransformer small(traits, random_sizes(dice));
      const std::string verdict = verdict_on(small.writer);
      CAPTURE(traits.architecture);
      CAPTURE(verdict);
      CAPTURE(all);
      CHECK((verdict.empty() || is_sentence(verdict)));
      if (!verdict.empty()) continue;
      CHECK(decode_error(small, DType::F32) < 1e-5);
      CHECK(prefill_error(small) < 1e-5);
      ++right;
    }
  }
  CHECK(right > all / 2);
  CHECK(right < all);
}

TEST_CASE("random hyper-parameters of models with latents give right logits, or a sentence") {
  Dice dice(1147);
  for (const char* architecture : {"deepseek2", "glm4moelite"}) {
    int right = 0;
    constexpr int kAll = 20;
    for (int i = 0; i < kAll; ++i) {
      Variant variant = random_variant(dice);
      variant.architecture = architecture;
      const GgufWriter writer = RandomModel(variant).writer();
      const std::string verdict = verdict_on(writer);
      CAPTURE(architecture);
      CAPTURE(verdict);
      CAPTURE(i);
      CHECK((verdict.empty() || is_sentence(verdict)));
      if (!verdict.empty()) continue;
      const Opened opened(writer);
      const Deepseek2Parameters parameters = read_deepseek2(*opened.file, architecture).take();
      const auto wanted = ReferenceForward(*opened.file, parameters).logits(kIds);
      CHECK(decode_error(writer, wanted, DType::F32) < 1e-5);
      CHECK(prefill_error(writer, wanted.back()) < 1e-5);
      ++right;
    }
    CHECK(right > kAll / 2);
    CHECK(right < kAll);
  }
}

TEST_CASE("keys with values outside of their limits, or of other kinds, give a sentence or a model") {
  Dice dice(815);
  for (const Traits& traits : small_models()) {
    CAPTURE(traits.architecture);
    CHECK(refused_after_changes(SmallTransformer(traits).writer, dice, 30) > 10);
  }
  for (const Variant& variant : {Variant{}, Variant{.q_lora = 0, .yarn = true}, Variant{.groups = 3, .groups_used = 2}})
    CHECK(refused_after_changes(RandomModel(variant).writer(), dice, 30) > 10);
}
