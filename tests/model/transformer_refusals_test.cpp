// Files of models that cannot be: what is wrong is named.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "model/model.h"
#include "model/small_models.h"

using namespace smelt;
using namespace smelt::test;

namespace {

// "" where the file is accepted.
std::string error_of(const GgufWriter& writer) {
  const auto bytes = writer.bytes();
  const auto file = GgufFile::open_memory(bytes);
  const auto model = read_model(*file);
  return model ? "" : model.error().message;
}

// A change that a model cannot bear, and what the error names.
struct BadChange {
  const char* name;
  std::function<void(GgufWriter&)> change;
};

void check_refused(const GgufWriter& good, std::initializer_list<BadChange> changes) {
  CHECK(error_of(good) == "");
  for (const BadChange& row : changes) {
    GgufWriter bad = good;
    row.change(bad);
    const std::string message = error_of(bad);
    CAPTURE(message);
    CHECK(message.starts_with("["));
    CHECK_MESSAGE(message.find(row.name) != std::string::npos, row.name);
  }
}

}  // namespace

TEST_CASE("qwen35: what does not fit together is refused by name") {
  const GgufWriter good = SmallTransformer(kSmallQwen35).writer;
  check_refused(
      good, {
                {"qwen35.ssm.group_count", [](GgufWriter& w) { w.u32("qwen35.ssm.group_count", 3); }},
                {"qwen35.ssm.inner_size", [](GgufWriter& w) { w.u32("qwen35.ssm.inner_size", 33); }},
                {"qwen35.ssm.state_size", [](GgufWriter& w) { w.u32("qwen35.ssm.state_size", 6); }},
                {"qwen35.ssm.conv_kernel", [](GgufWriter& w) { w.u32("qwen35.ssm.conv_kernel", 1); }},
                {"qwen35.ssm.time_step_rank", [](GgufWriter& w) { w.remove("qwen35.ssm.time_step_rank"); }},
                {"blk.0.attn_q.weight", [](GgufWriter& w) { w.u32("qwen35.full_attention_interval", 1); }},
                {"qwen35.attention.value_length", [](GgufWriter& w) { w.u32("qwen35.attention.value_length", 32); }},
                {"blk.0.ssm_dt.bias", [](GgufWriter& w) { w.remove_tensor("blk.0.ssm_dt.bias"); }},
                {"blk.1.attn_q_norm.weight", [](GgufWriter& w) { w.remove_tensor("blk.1.attn_q_norm.weight"); }},
            });
}

TEST_CASE("llama: what does not fit together is refused by name") {
  const GgufWriter good = SmallTransformer({.has_bias = true, .has_divisors = true}).writer;
  check_refused(good,
                {
                    {"llama.attention.head_count_kv", [](GgufWriter& w) { w.u32("llama.attention.head_count_kv", 3); }},
                    {"llama.rope.dimension_count", [](GgufWriter& w) { w.u32("llama.rope.dimension_count", 32); }},
                    {"llama.attention.key_length", [](GgufWriter& w) { w.u32("llama.attention.key_length", 6); }},
                    {"llama.expert_used_count", [](GgufWriter& w) { w.u32("llama.expert_count", 8); }},
                    {"blk.0.ffn_gate_inp.weight",
                     [](GgufWriter& w) { w.u32("llama.expert_count", 8).u32("llama.expert_used_count", 2); }},
                    {"blk.1.attn_k.bias", [](GgufWriter& w) { w.remove_tensor("blk.1.attn_k.bias"); }},
                    {"blk.0.attn_v.weight", [](GgufWriter& w) { w.remove_tensor("blk.0.attn_v.weight"); }},
                    {"rope_freqs.weight",
                     [](GgufWriter& w) {
                       w.remove_tensor("rope_freqs.weight");
                       w.tensor("rope_freqs.weight", {4}, GgufType::F32);
                     }},
                });
}

TEST_CASE("gpt-oss: each bias and the sinks are missed by name") {
  const GgufWriter good = SmallTransformer(kSmallGptOss).writer;
  CHECK(error_of(good) == "");
  for (const char* name : {"attn_k.bias", "attn_output.bias", "attn_sinks.weight", "ffn_gate_inp.bias",
                           "ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias"}) {
    GgufWriter bad = good;
    bad.remove_tensor("blk.1." + std::string(name));
    CHECK_MESSAGE(error_of(bad).find(name) != std::string::npos, name);
  }
  GgufWriter bad = good;
  bad.remove("gpt-oss.attention.sliding_window");
  CHECK(error_of(bad).find("gpt-oss.attention.sliding_window") != std::string::npos);
}

TEST_CASE("what an architecture always has is missed by name") {
  const struct {
    Traits traits;
    std::string missing;
  } table[] = {
      {{.architecture = "qwen2"}, "attn_q.bias"},
      {{.architecture = "qwen3"}, "attn_q_norm.weight"},
      {{.architecture = "qwen3", .has_norms = true, .rotated = 18}, "qwen3.rope.dimension_count"},
      {{.architecture = "glm4moe"}, "post_attention_norm.weight"},
      {{.architecture = "gemma3"}, "attn_q_norm.weight"},
      {{.architecture = "olmo2"}, "attn_q_norm.weight"},
  };
  for (const auto& row : table) {
    const std::string message = error_of(SmallTransformer(row.traits).writer);
    CAPTURE(message);
    CHECK_MESSAGE(message.find(row.missing) != std::string::npos, row.missing);
  }
}

TEST_CASE("granite and mistral3: scales outside of what is sane are refused by name") {
  check_refused(SmallTransformer({.architecture = "granite"}).writer,
                {
                    {"granite.logit_scale", [](GgufWriter& w) { w.remove("granite.logit_scale"); }},
                    {"granite.logit_scale", [](GgufWriter& w) { w.f32("granite.logit_scale", 0); }},
                    {"granite.residual_scale", [](GgufWriter& w) { w.f32("granite.residual_scale", -1); }},
                    {"granite.embedding_scale", [](GgufWriter& w) { w.f32("granite.embedding_scale", 1e9f); }},
                    {"granite.attention.scale", [](GgufWriter& w) { w.f32("granite.attention.scale", -1); }},
                });
  check_refused(SmallTransformer({.architecture = "mistral3"}).writer,
                {{"mistral3.attention.temperature_scale",
                  [](GgufWriter& w) { w.f32("mistral3.attention.temperature_scale", -1); }}});
}

namespace {

bool is_one_sentence(const std::string& message) {
  return message.starts_with("[") && message.find('\n') == std::string::npos && message.size() < 400;
}

void check_names(const GgufWriter& bad, const std::string& name) {
  const std::string message = error_of(bad);
  CAPTURE(message);
  CHECK(is_one_sentence(message));
  CHECK_MESSAGE(message.find(name) != std::string::npos, name);
}

}  // namespace

TEST_CASE("every architecture: keys that are missing or absurd are refused by name") {
  for (const Traits& traits : small_models()) {
    const std::string a = traits.architecture;
    // Then no layer has a network of the other width, which is not read.
    const bool has_experts_alone = traits.has_experts && traits.has_own_expert_width() && !traits.is_glm_moe();
    const GgufWriter good = SmallTransformer(traits).writer;
    REQUIRE(error_of(good) == "");
    CAPTURE(a);
    std::vector<std::string> required = {"block_count", "context_length", "embedding_length", "attention.head_count",
                                         "attention.layer_norm_rms_epsilon"};
    if (traits.has_experts) required.push_back("expert_used_count");
    if (!traits.has_experts) required.push_back("feed_forward_length");
    if (traits.has_delta_net()) required.insert(required.end(), {"ssm.group_count", "ssm.state_size"});
    if (traits.is_granite()) required.push_back("logit_scale");
    for (const std::string& key : required) {
      GgufWriter bad = good;
      check_names(bad.remove(a + "." + key), a + "." + key);
    }
    for (const GgufWriter::Entry& entry : good.entries) {
      if (!entry.key.starts_with(a + ".") || (has_experts_alone && entry.key.ends_with(".feed_forward_length")))
        continue;
      const auto kind = static_cast<GgufKind>(entry.kind);
      GgufWriter bad = good;
      if (kind == GgufKind::U32) check_names(bad.u32(entry.key, UINT32_MAX), entry.key);
      if (kind == GgufKind::F32) check_names(bad.f32(entry.key, NAN), entry.key);
      check_names(bad.string(entry.key, "many"), entry.key);
    }
  }
}

TEST_CASE("every architecture: tensors of another shape are refused by name") {
  for (const Traits& traits : small_models()) {
    const GgufWriter good = SmallTransformer(traits).writer;
    CAPTURE(traits.architecture);
    for (const GgufWriter::Tensor& tensor : good.tensors) {
      GgufWriter bad = good;
      bad.remove_tensor(tensor.name);
      bad.tensor(tensor.name, {7, 3});
      check_names(bad, tensor.name);
    }
  }
}
