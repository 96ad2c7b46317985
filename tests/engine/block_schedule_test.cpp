// The schedule of a whole layer of GLM-4.7-Flash, at full size.
#include <doctest/doctest.h>

#include <map>

#include "schedule/schedule.h"
#include "support/full_size_glm.h"

using namespace smelt;
using namespace smelt::test;

namespace {

Schedule decode_schedule(const FullSizeGlm& glm, int64_t layer, bool quantise = false) {
  ModelShape shape;
  shape.quantise = quantise;
  shape.chunks = variable("chunks", 1, 16);
  shape.context = 4096 + 64;
  shape.cache_rows = 4096 + 64;
  shape.local_rows = shape.cache_rows;
  shape.page_entries = 65;
  return make_schedule(glm.block(shape, layer).root);
}

}  // namespace

TEST_CASE("a layer of experts decodes a token in at most 10 kernels") {
  for (GgufType type : {GgufType::Q4_0, GgufType::Q4_K})
    for (bool quantise : {false, true}) {
      const FullSizeGlm glm(type);
      const Schedule schedule = decode_schedule(glm, 1, quantise);
      MESSAGE(name_of(type) << std::string(quantise ? ", q8, " : ", f32, ") << schedule.kernels.size() << " kernels:\n"
                            << summary(schedule));
      CHECK(schedule.kernels.size() <= 10);
      CHECK(decode_schedule(glm, 0, quantise).kernels.size() <= 10);
    }
}

TEST_CASE("temporaries of a token are small: no weight is ever stored as floats") {
  const FullSizeGlm glm(GgufType::Q4_0);
  const Schedule schedule = decode_schedule(glm, 1);
  CHECK(schedule.arena_bytes < 4 << 20);
  for (const Kernel& k : schedule.kernels)
    for (Ref n : toposort(k.tree))
      if (n->op == Op::Local) CHECK(n->arg.list[0] <= 32 << 10);
}

TEST_CASE("every temporary is written by one level and only read by later ones") {
  const Schedule schedule = decode_schedule(FullSizeGlm(GgufType::Q4_0), 1);
  std::map<int64_t, int> written;
  for (const Kernel& k : schedule.kernels)
    for (Ref n : toposort(k.tree))
      if (n->op == Op::Store && n->src[0]->op == Op::Param) {
        const Ref buffer = k.buffers[static_cast<size_t>(n->src[0]->arg.i)];
        if (buffer->op == Op::Temp) CHECK(written.emplace(buffer->arg.i, k.level).second);
      }
  for (const Kernel& k : schedule.kernels)
    for (Ref n : toposort(k.tree))
      if (n->op == Op::Load && n->src[0]->op == Op::Param) {
        const Ref buffer = k.buffers[static_cast<size_t>(n->src[0]->arg.i)];
        if (buffer->op == Op::Temp) CHECK(written.at(buffer->arg.i) < k.level);
      }
}

TEST_CASE("contexts of any length have the same kernels, those beyond 16384 tokens by powers of two") {
  const FullSizeGlm glm(GgufType::Q4_0);
  const auto trees = [&](int64_t context, Dim tokens, DType cache) {
    ModelShape shape{.tokens = tokens, .many_tokens = !const_int(tokens.ref), .cache_type = cache, .quantise = true};
    shape.context = shape.cache_rows = (context + kChunkSize - 1) / kChunkSize * kChunkSize + 64;
    shape.local_rows = shape.cache_rows;
    shape.page_entries = shape.context / kPageSize;
    shape.chunks = variable("chunks", 1, shape.context / kChunkSize);
    Refs out;
    for (int64_t layer : {0, 1})
      for (const Kernel& k : make_schedule(glm.block(shape, layer).root).kernels) out.push_back(k.tree);
    return out;
  };
  for (DType cache : {DType::F16, DType::U8})
    for (const auto& [one, other] : {std::pair<int64_t, int64_t>{600, 16000}, {20000, 30000}}) {
      CAPTURE(one);
      CHECK(trees(one, 1, cache) == trees(other, 1, cache));
      CHECK(trees(one, Dim(variable("tokens8", 1, 64) * 8), cache) ==
            trees(other, Dim(variable("tokens8", 1, 64) * 8), cache));
    }
}
