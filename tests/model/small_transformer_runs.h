// Greatest error of a small transformer's logits as the interpreter has them, beside the direct forward pass.
#pragma once

#include <memory>

#include "model/model_runner.h"
#include "model/small_transformer.h"

namespace smelt::test {

inline const std::vector<int> kIds = {5, 17, 30, 3, 3, 39, 21};
inline const std::vector<int32_t> kPages = {3, 1, 4, 2, 0};

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
inline ModelRunner::Step one_token(int32_t position) {
  return {.tokens = {kIds[position]},
          .positions = {position},
          .tables = {0},
          .rows = {0},
          .variables = {},
          .states_in = {position == 0 ? 0 : 1 + position % 2},
          .states_out = {2 - position % 2}};
}

// Greatest relative error over positions, one token at a time. `wanted`: logits after each of kIds.
inline double decode_error(const GgufWriter& writer, const std::vector<Vector>& wanted, DType cache) {
  const Opened opened(writer);
  ModelRunner runner(*opened.file, *opened.model, kPages, 5, cache);
  double worst = 0;
  for (int32_t t = 0; t < static_cast<int32_t>(kIds.size()); ++t)
    worst = std::max(worst, relative_error(runner.run(runner.shape(), one_token(t)), wanted[t]));
  return worst;
}
inline double decode_error(const SmallTransformer& small, DType cache) {
  return decode_error(small.writer, small.logits(kIds), cache);
}

// The first `before` tokens of the text come one at a time, the others as a part of a prompt. `wanted`: the last
// logits.
inline double prefill_error(const GgufWriter& writer, const Vector& wanted, int32_t before = 0) {
  const Opened opened(writer);
  ModelRunner runner(*opened.file, *opened.model, kPages, 5);
  for (int32_t t = 0; t < before; ++t) runner.run(runner.shape(), one_token(t));
  ModelShape shape = runner.shape();
  shape.tokens = Dim(variable("tokens", 1, 32) * 8);
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
  return relative_error(runner.run(shape, step), wanted);
}
inline double prefill_error(const SmallTransformer& small, int32_t before = 0) {
  return prefill_error(small.writer, small.logits(kIds).back(), before);
}

}  // namespace smelt::test
