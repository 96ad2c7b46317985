// Models of transformer.h, run by the interpreter, beside a direct forward pass.
#include "model/transformer.h"

#include <doctest/doctest.h>

#include "graph/args.h"
#include "graph/operands.h"
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

TEST_CASE("tokens of a delta net that follow each other in a batch leave a state each, to go on from") {
  constexpr int32_t kRun = 3;
  const std::vector<int32_t> places = {4, 5, 6};
  for (const Traits& traits : {kSmallQwen35, kSmallQwen3Next}) {
    const SmallTransformer small(traits);
    const Opened opened(small.writer);
    const std::vector<Vector> wanted = small.logits(kIds);
    const size_t width = wanted[0].size();
    for (int32_t before : {0, 1, 3}) {
      CAPTURE(before);
      ModelRunner runner(*opened.file, *opened.model, kPages, 5);
      for (int32_t t = 0; t < before; ++t) runner.run(runner.shape(), one_token(t));
      ModelShape shape = runner.shape();
      shape.tokens = shape.rows = Dim(kRun + 1);
      shape.rows_follow = true;
      ModelRunner::Step step{.tables = {0, 0, 0, 0}, .rows = {0, 1, 2, 3}, .variables = {}};
      for (int32_t i = 0; i < kRun; ++i) step.tokens.push_back(kIds[before + i]), step.positions.push_back(before + i);
      step.tokens.push_back(step.tokens[0]), step.positions.push_back(before);  // padding begins anew
      const int32_t found = one_token(before).states_in[0];
      step.states_in = {found, -1, -1, found};
      step.states_out = {places[0], places[1], places[2], 7};
      const Vector logits = runner.run(shape, step);
      for (size_t row = 0; row <= kRun; ++row) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * width);
        const size_t token = static_cast<size_t>(before) + row % kRun;
        CHECK(relative_error(Vector(begin, begin + static_cast<std::ptrdiff_t>(width)), wanted[token]) < 2e-6);
      }
      // Taken back to each of them, the text goes on.
      for (int32_t kept = 1; kept <= kRun; ++kept) {
        ModelRunner::Step next = one_token(before + kept);
        next.states_in = {places[static_cast<size_t>(kept - 1)]}, next.states_out = {3};
        CHECK(relative_error(runner.run(runner.shape(), next), wanted[static_cast<size_t>(before + kept)]) < 2e-6);
      }
    }
  }
}

TEST_CASE("layers with windows read no more chunks than the windows of a group of tokens touch") {
  // Of a context of up to 16 chunks: as many as attention goes over, at most.
  const auto chunks_read = [](size_t window, int64_t layer, Dim tokens) {
    Sizes sizes;
    sizes.window = window;
    const SmallTransformer small(kSmallGptOss, sizes);
    const Opened opened(small.writer);
    ModelShape shape{.tokens = tokens, .many_tokens = !const_int(tokens.ref), .chunks = variable("chunks", 1, 16)};
    shape.context = shape.cache_rows = shape.local_rows = 16 * kChunkSize + kPageSize;
    shape.page_entries = shape.context / kPageSize;
    int64_t most = 0;
    for (Ref n : toposort(opened.model->block(*opened.file, shape, layer).root)) {
      if (n->op != Op::SoftmaxSum) continue;
      const auto axis = static_cast<size_t>(reduced_axes(n)[0]);
      most = std::max(most, SoftmaxView(n).score->shape[axis]->max);
    }
    return most / kChunkSize;
  };
  const Dim one = 1, many = Dim(variable("tokens8", 1, 64) * 8);
  CHECK(chunks_read(3, 1, one) == 16);  // a layer without a window
  CHECK(chunks_read(1, 0, one) == 1);
  CHECK(chunks_read(3, 0, one) == 2);
  CHECK(chunks_read(250, 0, many) == 2);
  CHECK(chunks_read(251, 0, one) == 2);
  CHECK(chunks_read(251, 0, many) == 3);  // 258 positions
  CHECK(chunks_read(4096, 0, one) == 16);
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
