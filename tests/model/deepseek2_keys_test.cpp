
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "model/deepseek2.h"
#include "support/gguf_writer.h"

using namespace smelt;
using smelt::test::GgufWriter;

namespace {

const GgufFile& tiny_model() {
  static const GgufFile file = [] {
    auto opened = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf");
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().message));
    return opened.take();
  }();
  return file;
}

// The tiny model as a writer: tests change a copy.
const GgufWriter& tiny_writer() {
  static const GgufWriter writer = GgufWriter::copy_of(tiny_model());
  return writer;
}

Result<Deepseek2Parameters> read(const GgufWriter& writer) {
  const auto bytes = writer.bytes();
  auto file = GgufFile::open_memory(bytes);
  if (!file) return file.error();
  auto model = read_model(*file);
  if (!model) return model.error();
  return dynamic_cast<const Deepseek2&>(**model).parameters();
}

// "" where the file is accepted.
std::string error_of(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = tiny_writer();
  change(writer);
  const auto result = read(writer);
  return result ? "" : result.error().message;
}

bool is_one_line_naming(const std::string& message, const std::string& where) {
  return message.starts_with("[") && message.find(where) != std::string::npos &&
         message.find('\n') == std::string::npos;
}

// A change of the metadata, the key that the error must name and the value that it must show.
struct Bad {
  const char* name;
  std::function<void(GgufWriter&)> change;
  const char* key;
  const char* value = "";
};

Bad bad_u32(const char* key, uint32_t value) {
  return {key, [=](GgufWriter& w) { w.u32(key, value); }, key, ""};
}

Bad missing(const char* key) {
  return {key, [=](GgufWriter& w) { w.remove(key); }, key, "missing"};
}

Bad reshaped(const char* tensor, std::vector<uint64_t> dims) {
  return {tensor,
          [=](GgufWriter& w) {
            const auto type = static_cast<GgufType>(w.find_tensor(tensor)->type);
            w.remove_tensor(tensor);
            w.tensor(tensor, dims, type);
          },
          tensor, "shape"};
}

Bad without(const char* tensor) {
  return {tensor, [=](GgufWriter& w) { w.remove_tensor(tensor); }, tensor, ""};
}

}  // namespace

TEST_CASE("the tiny model's numbers are read") {
  const auto result = read_deepseek2(tiny_model(), "deepseek2");
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().message));
  const Deepseek2Parameters& m = *result;
  CHECK(m.common.layers == 6);
  CHECK(m.dense_layers == 1);
  CHECK(m.common.vocabulary == 4096);
  CHECK(m.common.context == 8192);
  CHECK(m.common.hidden == 256);
  CHECK(m.common.epsilon == doctest::Approx(1e-5));
  CHECK(m.attention.heads == 4);
  CHECK(m.attention.q_lora == 256);
  CHECK(m.attention.kv_lora == 512);
  CHECK(m.attention.nope == 64);
  CHECK(m.attention.rope.width == 64);
  CHECK(m.attention.v_head == 64);
  CHECK(m.attention.cache_width() == 576);
  CHECK(m.attention.rope.base == 1e6);
  CHECK(m.attention.rope.factor == 1);
  CHECK(m.attention.softmax_scale == doctest::Approx(1 / std::sqrt(128.0)));
  CHECK(m.dense_width == 512);
  CHECK(m.experts.count == 8);
  CHECK(m.experts.used == 4);
  CHECK(m.experts.width == 256);
  CHECK(m.experts.shared_width == 256);
  CHECK(m.experts.routing == Routing::Sigmoid);
  CHECK(m.experts.selection_bias);
  CHECK(m.experts.normalise_weights);
  CHECK(m.experts.weights_scale == doctest::Approx(1.8));
  CHECK(!m.common.tied_output);
  CHECK(!m.attention.fused_kv_b);
}

TEST_CASE("a bad number is refused in one line that names its key") {
  const std::vector<Bad> table = {
      missing("deepseek2.block_count"),
      bad_u32("deepseek2.block_count", 0),
      bad_u32("deepseek2.block_count", 1u << 31),
      bad_u32("deepseek2.block_count", 1025),
      missing("deepseek2.context_length"),
      bad_u32("deepseek2.context_length", 0),
      bad_u32("deepseek2.context_length", 1u << 31),
      missing("deepseek2.embedding_length"),
      bad_u32("deepseek2.embedding_length", 0),
      bad_u32("deepseek2.embedding_length", 1u << 31),
      missing("deepseek2.feed_forward_length"),
      bad_u32("deepseek2.feed_forward_length", 0),
      bad_u32("deepseek2.feed_forward_length", 1u << 31),
      missing("deepseek2.attention.head_count"),
      bad_u32("deepseek2.attention.head_count", 0),
      bad_u32("deepseek2.attention.head_count", 1u << 31),
      bad_u32("deepseek2.attention.head_count_kv", 0),
      bad_u32("deepseek2.attention.head_count_kv", 3),
      bad_u32("deepseek2.attention.q_lora_rank", 1u << 31),
      missing("deepseek2.attention.kv_lora_rank"),
      bad_u32("deepseek2.attention.kv_lora_rank", 0),
      bad_u32("deepseek2.attention.kv_lora_rank", 1u << 31),
      bad_u32("deepseek2.attention.key_length_mla", 0),
      bad_u32("deepseek2.attention.key_length_mla", 1),
      bad_u32("deepseek2.attention.key_length_mla", 64),
      bad_u32("deepseek2.attention.key_length_mla", 1u << 31),
      bad_u32("deepseek2.attention.value_length_mla", 0),
      bad_u32("deepseek2.attention.value_length_mla", 1u << 31),
      missing("deepseek2.rope.dimension_count"),
      bad_u32("deepseek2.rope.dimension_count", 0),
      bad_u32("deepseek2.rope.dimension_count", 1),
      bad_u32("deepseek2.rope.dimension_count", 33),
      bad_u32("deepseek2.rope.dimension_count", 1u << 31),
      bad_u32("deepseek2.leading_dense_block_count", 7),
      bad_u32("deepseek2.leading_dense_block_count", 1u << 31),
      bad_u32("deepseek2.nextn_predict_layers", 6),
      bad_u32("deepseek2.nextn_predict_layers", 1u << 31),
      missing("deepseek2.expert_count"),
      bad_u32("deepseek2.expert_count", 0),
      bad_u32("deepseek2.expert_count", 1u << 31),
      missing("deepseek2.expert_used_count"),
      bad_u32("deepseek2.expert_used_count", 0),
      bad_u32("deepseek2.expert_used_count", 9),
      bad_u32("deepseek2.expert_used_count", 1u << 31),
      missing("deepseek2.expert_feed_forward_length"),
      bad_u32("deepseek2.expert_feed_forward_length", 0),
      bad_u32("deepseek2.expert_shared_count", 1u << 31),
      bad_u32("deepseek2.expert_group_count", 3),
      bad_u32("deepseek2.expert_group_count", 8),
      bad_u32("deepseek2.expert_group_count", 1u << 31),
      bad_u32("deepseek2.expert_group_used_count", 3),
      bad_u32("deepseek2.expert_gating_func", 0),
      bad_u32("deepseek2.expert_gating_func", 3),
      bad_u32("deepseek2.expert_gating_func", 1u << 31),
      bad_u32("deepseek2.vocab_size", 0),
      bad_u32("deepseek2.vocab_size", 4095),
      bad_u32("deepseek2.vocab_size", 1u << 31),
  };
  for (const Bad& bad : table) {
    const std::string message = error_of(bad.change);
    CAPTURE(message);
    CHECK_MESSAGE(is_one_line_naming(message, bad.key), bad.name);
    CHECK(message.find(bad.value) != std::string::npos);
  }
}

TEST_CASE("a real number out of its range is refused by name") {
  const struct {
    const char* key;
    float value;
  } table[] = {
      {"deepseek2.attention.layer_norm_rms_epsilon", 0},
      {"deepseek2.attention.layer_norm_rms_epsilon", -1e-5f},
      {"deepseek2.attention.layer_norm_rms_epsilon", 1},
      {"deepseek2.attention.layer_norm_rms_epsilon", NAN},
      {"deepseek2.rope.freq_base", 0},
      {"deepseek2.rope.freq_base", 1},
      {"deepseek2.rope.freq_base", INFINITY},
      {"deepseek2.expert_weights_scale", 0},
      {"deepseek2.expert_weights_scale", -1},
      {"deepseek2.expert_weights_scale", NAN},
  };
  for (const auto& row : table) {
    const std::string message = error_of([&](GgufWriter& w) { w.f32(row.key, row.value); });
    CAPTURE(message);
    CHECK_MESSAGE(is_one_line_naming(message, row.key), row.value);
  }
}

TEST_CASE("a key of the wrong kind is refused by name") {
  const std::string key = "deepseek2.attention.head_count";
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { w.string(key, "4"); }), key));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { w.f32(key, 4); }), key));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { w.u32s(key, {4, 4, 4, 4, 4, 4}); }), key));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { w.i32(key, -4); }), key));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { w.u32("deepseek2.expert_weights_norm", 1); }),
                           "deepseek2.expert_weights_norm"));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { w.u32("deepseek2.rope.scaling.type", 2); }),
                           "deepseek2.rope.scaling.type"));
}

TEST_CASE("an integer may have any integer kind") {
  CHECK(error_of([](GgufWriter& w) { w.u8("deepseek2.attention.head_count", 4); }) == "");
  CHECK(error_of([](GgufWriter& w) { w.i64("deepseek2.attention.head_count", 4); }) == "");
}

TEST_CASE("a missing, reshaped or unsupported tensor is refused by name") {
  const std::vector<Bad> table = {
      without("token_embd.weight"),
      without("output_norm.weight"),
      without("blk.0.attn_norm.weight"),
      without("blk.0.ffn_gate.weight"),
      without("blk.3.attn_q_a_norm.weight"),
      without("blk.5.ffn_down_exps.weight"),
      without("blk.2.exp_probs_b.bias"),
      without("blk.1.attn_k_b.weight"),
      without("blk.4.ffn_up_shexp.weight"),
      reshaped("output.weight", {256, 4095}),
      reshaped("output_norm.weight", {255}),
      reshaped("blk.0.attn_q_a.weight", {256, 255}),
      reshaped("blk.0.attn_q_b.weight", {256, 512, 2}),
      reshaped("blk.0.attn_kv_a_mqa.weight", {256, 512}),
      reshaped("blk.1.attn_k_b.weight", {64, 512, 3}),
      reshaped("blk.1.attn_v_b.weight", {512, 63, 4}),
      reshaped("blk.1.ffn_gate_exps.weight", {256, 256, 7}),
      reshaped("blk.1.ffn_gate_exps.weight", {256, 8, 256}),
      reshaped("blk.1.ffn_gate_inp.weight", {256, 9}),
      reshaped("blk.1.exp_probs_b.bias", {9}),
      reshaped("blk.5.ffn_down_shexp.weight", {256, 255}),
      {"Q8_K",
       [](GgufWriter& w) {
         w.remove_tensor("blk.2.attn_q_a.weight");
         w.tensor("blk.2.attn_q_a.weight", {256, 256}, GgufType::Q8_K);
       },
       "blk.2.attn_q_a.weight", "Q8_K"},
  };
  for (const Bad& bad : table) {
    const std::string message = error_of(bad.change);
    CAPTURE(message);
    CHECK_MESSAGE(is_one_line_naming(message, bad.key), bad.name);
    CHECK(message.find(bad.value) != std::string::npos);
  }
}

TEST_CASE("the shape error shows both shapes") {
  CHECK(error_of(reshaped("blk.0.attn_q_a.weight", {256, 255}).change) ==
        "[model] blk.0.attn_q_a.weight: shape {256, 255} where the hyper-parameters ask for {256, "
        "256}; the file is "
        "damaged or of another model");
}

TEST_CASE("an unknown architecture is named, with the supported ones") {
  const std::string message = error_of([](GgufWriter& w) { w.string("general.architecture", "mamba\n2"); });
  CAPTURE(message);
  CHECK(is_one_line_naming(message, "general.architecture"));
  CHECK(message.find("mamba") != std::string::npos);
  CHECK(message.find("deepseek2") != std::string::npos);
  CHECK(is_one_line_naming(error_of([](GgufWriter& w) { w.remove("general.architecture"); }), "general.architecture"));
}

TEST_CASE("a vocabulary that disagrees with the tokenizer is refused") {
  CHECK(is_one_line_naming(error_of([](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", {"a", "b"}); }),
                           "tokenizer.ggml.tokens"));
}

TEST_CASE("without a gating key the selection bias means sigmoid, no bias softmax") {
  GgufWriter writer = tiny_writer();
  writer.remove("deepseek2.expert_gating_func");
  CHECK(read(writer)->experts.routing == Routing::Sigmoid);
  for (int layer = 1; layer < 6; ++layer) writer.remove_tensor(layer_prefix(layer) + "exp_probs_b.bias");
  const auto result = read(writer);
  REQUIRE(result.ok());
  CHECK(result->experts.routing == Routing::Softmax);
  CHECK(!result->experts.selection_bias);
}

TEST_CASE("layers of the multi-token-prediction head are left out") {
  GgufWriter writer = tiny_writer();
  writer.u32("deepseek2.block_count", 7).u32("deepseek2.nextn_predict_layers", 1);
  const auto result = read(writer);
  REQUIRE(result.ok());
  CHECK(result->common.layers == 6);
}

TEST_CASE("head widths of older files and of ollama's files are understood") {
  GgufWriter older = tiny_writer();
  older.remove("deepseek2.attention.key_length_mla").remove("deepseek2.attention.value_length_mla");
  older.u32("deepseek2.attention.key_length", 128).u32("deepseek2.attention.value_length", 64);
  const auto old = read(older);
  REQUIRE(old.ok());
  CHECK(old->attention.nope == 64);
  CHECK(old->attention.v_head == 64);

  GgufWriter ollama = tiny_writer();
  for (auto& entry : ollama.entries)
    if (entry.key.starts_with("deepseek2.")) entry.key = "glm4moelite." + entry.key.substr(10);
  ollama.string("general.architecture", "glm4moelite").u32("glm4moelite.attention.head_count_kv", 4);
  ollama.u32("glm4moelite.attention.key_length", 128).u32("glm4moelite.attention.value_length", 64);
  ollama.u32("glm4moelite.attention.key_length_mla", 576).u32("glm4moelite.attention.value_length_mla", 512);
  const auto swapped = read(ollama);
  REQUIRE_MESSAGE(swapped.ok(), (swapped.ok() ? "" : swapped.error().message));
  CHECK(swapped->attention.nope == 64);
  CHECK(swapped->attention.v_head == 64);
}

TEST_CASE("a file without an output matrix takes the embedding for it") {
  GgufWriter writer = tiny_writer();
  writer.remove_tensor("output.weight");
  const auto result = read(writer);
  REQUIRE(result.ok());
  CHECK(result->common.tied_output);
  CHECK(Deepseek2(*result).head_tensors().back().name == "token_embd.weight");
}

TEST_CASE("YaRN scales the softmax and refuses what it does not know") {
  auto yarn = [](GgufWriter& w) -> GgufWriter& {
    return w.string("deepseek2.rope.scaling.type", "yarn")
        .f32("deepseek2.rope.scaling.factor", 40)
        .u32("deepseek2.rope.scaling.original_context_length", 4096)
        .f32("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707f);
  };
  GgufWriter writer = tiny_writer();
  const auto result = read(yarn(writer));
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().message));
  const double m_scale = 1 + 0.0707f * std::log(40.0);
  CHECK(result->attention.softmax_scale == doctest::Approx(m_scale * m_scale / std::sqrt(128.0)));

  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { yarn(w).f32("deepseek2.rope.scaling.factor", 0); }),
                           "deepseek2.rope.scaling.factor"));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { yarn(w).remove("deepseek2.rope.scaling.factor"); }),
                           "deepseek2.rope.scaling.factor"));
  CHECK(is_one_line_naming(
      error_of([&](GgufWriter& w) { yarn(w).u32("deepseek2.rope.scaling.original_context_length", 0); }),
      "deepseek2.rope.scaling.original_context_length"));
  CHECK(is_one_line_naming(error_of([&](GgufWriter& w) { yarn(w).string("deepseek2.rope.scaling.type", "ntk\n"); }),
                           "deepseek2.rope.scaling.type"));
}
