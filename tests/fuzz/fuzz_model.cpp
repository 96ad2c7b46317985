// libFuzzer target: small models of every architecture whose keys get other values. A model is refused in one line, or
// every graph of it keeps the rules of its phase.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "graph/verify.h"
#include "model/model.h"
#include "model/random_model.h"
#include "model/small_models.h"

namespace {

using namespace smelt;
using namespace smelt::test;

void require(bool holds) {
  if (!holds) std::abort();
}

const std::vector<GgufWriter>& models() {
  static const std::vector<GgufWriter> all = [] {
    std::vector<GgufWriter> out;
    for (const Traits& traits : small_models()) out.push_back(SmallTransformer(traits).writer);
    for (const Variant& v : {Variant{}, Variant{.q_lora = 0, .yarn = true}, Variant{.groups = 3, .groups_used = 2}})
      out.push_back(RandomModel(v).writer());
    return out;
  }();
  return all;
}

void check_graphs(const GgufFile& file, const Model& model) {
  ModelShape shape;
  shape.context = 4 * kPageSize;
  shape.cache_rows = 4 * kPageSize;
  shape.local_rows = shape.cache_rows;
  shape.page_entries = 4;
  shape.states = 4;
  require(!fault_in(model.embed(file, shape).root, Phase::Tensor));
  for (int64_t layer = 0; layer < model.numbers().layers; ++layer)
    require(!fault_in(model.block(file, shape, layer).root, Phase::Tensor));
  require(!fault_in(model.head(file, shape).root, Phase::Tensor));
  for (const PositionTable& table : model.position_tables()) (void)table.rows(8);
}

}  // namespace

// The first byte chooses a model, each three that follow change a key (small_models.h).
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  GgufWriter writer = models()[data[0] % models().size()];
  for (size_t at = 1; at + 3 <= size && at < 25; at += 3) change_key(writer, data[at], data[at + 1], data[at + 2]);
  const std::vector<std::byte> bytes = writer.bytes();
  const auto file = GgufFile::open_memory(bytes, "fuzz");
  if (!file) return 0;
  const auto model = read_model(*file);
  if (!model) {
    require(model.error().message.starts_with("[") && model.error().message.find('\n') == std::string::npos);
    return 0;
  }
  check_graphs(*file, **model);
  return 0;
}
