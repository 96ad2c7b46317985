// Models of transformer.h, run by the interpreter, beside a direct forward pass.
#include "model/transformer.h"

#include <doctest/doctest.h>

#include "model/small_models.h"
#include "model/small_transformer_runs.h"

using namespace smelt;
using namespace smelt::test;

TEST_CASE("decode and prefill agree with the direct reference, whatever the architecture has") {
  for (const Traits& traits : small_models()) {
    CAPTURE(traits.architecture);
    CAPTURE(traits.rotated);
    const SmallTransformer small(traits);
    CHECK(decode_error(small, DType::F32) < 2e-6);
    CHECK(prefill_error(small) < 2e-6);
  }
}

TEST_CASE("a delta net goes on from the state that tokens before have left, in a step and in a prompt") {
  for (const Traits& traits : {kSmallQwen35, kSmallQwen3Next}) {
    const SmallTransformer small(traits);
    for (int32_t before : {1, 2, 3, 4, 6}) {
      CAPTURE(before);
      CHECK(prefill_error(small, before) < 2e-6);
    }
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
