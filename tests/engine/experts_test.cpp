// A block of experts over many tokens, whose pairs are sorted by expert: compiled and judged.
#include <doctest/doctest.h>

#include "model/model.h"
#include "model/random_model.h"
#include "support/run_graph.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

std::vector<std::byte> bytes_of_slot(const SlotBinding& slot, const GgufFile& file, const Model& m,
                                     const ModelShape& shape, int64_t tokens) {
  switch (slot.kind) {
    case Bound::Weight: {
      const GgufTensor* t = file.find(layer_prefix(1) + slot.name);
      return {t->data, t->data + t->bytes};
    }
    case Bound::Positions: {
      std::vector<int32_t> positions(tokens);
      for (int64_t i = 0; i < tokens; ++i) positions[i] = static_cast<int32_t>(i);
      return as_bytes(positions);
    }
    case Bound::Tables: return as_bytes(std::vector<int32_t>(shape.many_tokens ? tokens / kGroupSize : tokens));
    case Bound::Pages:
    case Bound::LocalPages: return as_bytes(std::vector<int32_t>{0, 1, 2, 3});
    case Bound::Cache: return std::vector<std::byte>(shape.cache_rows * m.cache_parts(DType::F32, 0)[0].row_bytes);
    case Bound::PositionTable:
      for (const PositionTable& table : m.position_tables())
        if (table.name == slot.name) return as_bytes(table.rows(shape.context));
      FAIL(slot.name);
      return {};
    case Bound::HiddenIn: return random_floats(tokens * m.numbers().hidden, 7);
    default: return {};
  }
}

}  // namespace

TEST_CASE("experts over many tokens agree with the interpreter for any number of tokens") {
  const std::vector<std::byte> bytes = RandomModel({}).writer().bytes();
  const auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  const auto m = read_model(*file);
  REQUIRE(m.ok());
  ModelShape shape;
  shape.tokens = Dim(variable("tokens8", 1, 32) * 8);
  shape.many_tokens = true;
  shape.context = shape.cache_rows = 4 * kPageSize;
  shape.page_entries = 4;
  const Segment block = (*m)->block(*file, shape, 1);
  for (int64_t tokens8 : {1, 2, 5}) {
    CAPTURE(tokens8);
    Inputs in{.variables = {{"tokens8", tokens8}}};
    for (size_t i = 0; i < block.slots.size(); ++i)
      if (block.slots[i].kind != Bound::HiddenOut)
        in.buffers[i] = bytes_of_slot(block.slots[i], *file, **m, shape, 8 * tokens8);
    CHECK(compare(block.root, in).worst < 1e-5);
  }
}

TEST_CASE("a product that is masked as a whole is not computed, and zero") {
  const Tensor x = param(0, DType::F32, {6, 64}, "x"), w = param(1, DType::F32, {16, 64}, "w");
  const Tensor used = less(iota({6, 1}, 0), scalar(4, DType::I64));
  const Ref root = sink({output(2, where(used, linear(x, w), scalar(0)))});
  const Comparison c = compare(root, {.buffers = {{0, random_floats(6 * 64, 1)}, {1, random_floats(16 * 64, 2)}}});
  CHECK(c.worst < 1e-5);
  CHECK(c.got.at(2)[4 * 16] == 0);
}
