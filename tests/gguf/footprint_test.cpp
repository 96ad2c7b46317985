#include "gguf/footprint.h"

#include <doctest/doctest.h>

#include "support/gguf_writer.h"

using namespace smelt;
using smelt::test::GgufWriter;

namespace {

// A mixture of experts with latent attention: 3 layers, the last for multi-token prediction.
GgufWriter tiny_moe() {
  GgufWriter w;
  w.string("general.architecture", "deepseek2")
      .u32("deepseek2.block_count", 3)
      .u32("deepseek2.nextn_predict_layers", 1);
  w.u32("deepseek2.expert_count", 8).u32("deepseek2.expert_used_count", 2).u32("deepseek2.embedding_length", 64);
  w.u32("deepseek2.attention.kv_lora_rank", 32).u32("deepseek2.rope.dimension_count", 16);
  w.tensor("token_embd.weight", {64, 100}).tensor("output.weight", {64, 100}, GgufType::Q8_0);
  w.tensor("blk.1.ffn_up_exps.weight", {64, 32, 8}, GgufType::Q4_0).tensor("blk.1.attn_norm.weight", {64});
  w.tensor("blk.2.nextn.eh_proj.weight", {128, 64});
  return w;
}

}  // namespace

TEST_CASE("a token reads one embedding row, the chosen experts and the trunk") {
  const auto bytes = tiny_moe().bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  auto model = footprint(*file);
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  const uint64_t experts = 32 * 8 * 2 * 18;
  CHECK(model->layers == 2);
  CHECK(model->token_bytes == 64 * 4 + 100 * 2 * 34 + experts / 8 * 2 + 64 * 4);
  CHECK(model->weight_bytes == 64 * 100 * 4 + 100 * 2 * 34 + experts + 64 * 4 + 128 * 64 * 4);
  CHECK(model->cache_values == 2 * (32 + 16));
  CHECK(model->cache_bytes(4096, 2) == 4096 * 96 * 2);
}

TEST_CASE("tied embeddings are read whole, as the output matrix") {
  const auto bytes = tiny_moe().remove_tensor("output.weight").bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK(bytes_read_per_token(*file, *file->find("token_embd.weight"), *footprint(*file)) == 64 * 100 * 4);
}

TEST_CASE("a file without any of the keys has a footprint") {
  const auto bytes = GgufWriter().tensor("t", {8}).bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  auto model = footprint(*file);
  REQUIRE(model.ok());
  CHECK(model->token_bytes == 32);
  CHECK(model->cache_values == 0);
}

TEST_CASE("keys and values of every head are cached where there is no latent") {
  GgufWriter w;
  w.string("general.architecture", "llama").u32("llama.block_count", 4).u32("llama.attention.head_count", 8);
  w.u32s("llama.attention.head_count_kv", {2, 2, 1, 2}).u32("llama.embedding_length", 256);
  const auto bytes = w.bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK(footprint(*file)->cache_values == 4 * 2 * (32 + 32));
}

TEST_CASE("hyper-parameters out of range are named") {
  for (const char* key : {"deepseek2.block_count", "deepseek2.expert_count", "deepseek2.attention.kv_lora_rank"}) {
    CAPTURE(key);
    const auto bytes = tiny_moe().u32(key, uint32_t{1} << 31).bytes();
    auto file = GgufFile::open_memory(bytes);
    REQUIRE(file.ok());
    const auto model = footprint(*file);
    REQUIRE(!model.ok());
    CHECK(model.error().message.starts_with("[gguf] " + std::string(key) + ": value 2147483648 "));
  }
}
