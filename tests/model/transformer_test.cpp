// Models of transformer.h, run by the interpreter, beside a direct forward pass.
#include "model/transformer.h"

#include <doctest/doctest.h>

#include "model/model_runner.h"
#include "model/small_transformer.h"

using namespace smelt;
using namespace smelt::test;

namespace {

const std::vector<int> kIds = {5, 17, 30, 3, 3, 39, 21};
const std::vector<int32_t> kPages = {3, 1, 4, 2, 0};

struct Opened {
  explicit Opened(const GgufWriter& writer) : bytes(writer.bytes()) {
    file = std::make_unique<GgufFile>(GgufFile::open_memory(bytes).take());
    auto read = read_model(*file);
    REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
    model = read.take();
  }
  std::vector<std::byte> bytes;
  std::unique_ptr<GgufFile> file;
  std::shared_ptr<const Model> model;
};

// Recurrent states go to and fro between two places, from a third one that holds zeros.
ModelRunner::Step one_token(int32_t position) {
  return {.tokens = {kIds[position]},
          .positions = {position},
          .tables = {0},
          .rows = {0},
          .variables = {},
          .states_in = {position == 0 ? 0 : 1 + position % 2},
          .states_out = {2 - position % 2}};
}

// Greatest relative error over positions, one token at a time.
double decode_error(const SmallTransformer& small, DType cache) {
  const Opened opened(small.writer);
  const auto wanted = small.logits(kIds);
  ModelRunner runner(*opened.file, *opened.model, kPages, 5, cache);
  double worst = 0;
  for (int32_t t = 0; t < static_cast<int32_t>(kIds.size()); ++t)
    worst = std::max(worst, relative_error(runner.run(runner.shape(), one_token(t)), wanted[t]));
  return worst;
}

// The first `before` tokens of the text come one at a time, the others as a part of a prompt.
double prefill_error(const SmallTransformer& small, int32_t before = 0) {
  const Opened opened(small.writer);
  ModelRunner runner(*opened.file, *opened.model, kPages, 5);
  for (int32_t t = 0; t < before; ++t) runner.run(runner.shape(), one_token(t));
  ModelShape shape = runner.shape();
  shape.tokens = opened.model->has_states() ? Dim(kGroupSize) : Dim(variable("tokens", 1, 32) * 8);
  shape.many_tokens = true;
  shape.chunks = Dim(variable("chunks", 1, 2));
  ModelRunner::Step step{.tables = {0}, .rows = {6 - before}, .variables = {{"tokens", 1}, {"chunks", 1}}};
  const ModelRunner::Step next = one_token(before);
  step.states_in = next.states_in, step.states_out = next.states_out;
  for (int32_t i = before; i < before + 8; ++i) {
    const bool is_padding = i >= static_cast<int32_t>(kIds.size());
    step.tokens.push_back(is_padding ? 0 : kIds[i]);
    step.positions.push_back(is_padding ? static_cast<int32_t>(4 * kPageSize) + i : i);
  }
  return relative_error(runner.run(shape, step), small.logits(kIds).back());
}

}  // namespace

TEST_CASE("decode and prefill agree with the direct reference, whatever the architecture has") {
  const Traits all[] = {
      {},
      {.has_bias = true, .has_divisors = true},
      {.rotated = kWidth / 4},
      {.architecture = "qwen2", .has_bias = true},
      {.architecture = "qwen3", .has_norms = true},
      {.architecture = "glm4moe", .has_bias = true, .rotated = kWidth / 2, .network_norm = "post_attention_norm"},
      {.architecture = "gemma3", .has_norms = true},
      {.architecture = "glm4moe", .has_norms = true, .rotated = kWidth / 4, .network_norm = "post_attention_norm"},
      {.has_experts = true},  // Mixtral
      {.architecture = "glm4", .has_bias = true, .rotated = kWidth / 2},
      {.architecture = "phi3"},
      {.architecture = "phi3", .has_divisors = true},
      {.architecture = "qwen2", .has_bias = true, .rotated = 12},  // a part that does not divide the head
      kGptOss,
      kQwen35,
      {.architecture = "granite"},
      {.architecture = "granite", .rotates = false},
      {.architecture = "granitemoe", .has_experts = true},
      {.architecture = "olmo2", .has_norms = true},
      {.architecture = "olmo2", .has_norms = true, .has_local_layers = true},
      {.architecture = "mistral3"},
  };
  for (const Traits& traits : all) {
    CAPTURE(traits.architecture);
    CAPTURE(traits.rotated);
    const SmallTransformer small(traits);
    CHECK(decode_error(small, DType::F32) < 2e-6);
    CHECK(prefill_error(small) < 2e-6);
  }
}

TEST_CASE("a delta net goes on from the state that tokens before have left, in a step and in a prompt") {
  const SmallTransformer small(kQwen35);
  for (int32_t before : {1, 2, 3, 4, 6}) {
    CAPTURE(before);
    CHECK(prefill_error(small, before) < 2e-6);
  }
}

TEST_CASE("a cache of halves or bytes changes logits a little") {
  const SmallTransformer small({.has_divisors = true});
  const double halves = decode_error(small, DType::F16), bytes = decode_error(small, DType::U8);
  CHECK(halves > 0);
  CHECK(halves < 5e-3);
  CHECK(bytes > halves);
  CHECK(bytes < 5e-2);
}

TEST_CASE("mistral3: YaRN stretches frequencies and makes nothing greater") {
  SmallTransformer small({.architecture = "mistral3"});
  small.writer.string("mistral3.rope.scaling.type", "yarn").f32("mistral3.rope.scaling.factor", 16);
  for (float log_multiplier : {0.f, 1.f}) {
    small.writer.f32("mistral3.rope.scaling.yarn_log_multiplier", log_multiplier);
    const Opened opened(small.writer);
    const std::vector<PositionTable> tables = opened.model->position_tables();
    CHECK(tables[0].magnitude == doctest::Approx(1));
    CHECK(tables[0].frequencies.back() < 0.2 * std::pow(kBase, -(kWidth - 2.0) / kWidth));
    const std::vector<float> temperature = tables[2].rows(7);
    CHECK(temperature[2] == 0);
    CHECK(temperature[3] == doctest::Approx(kTemperature * std::log(2)));
    CHECK(temperature[6] == doctest::Approx(kTemperature * std::log(3)));
  }
}
