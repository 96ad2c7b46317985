#include "app/known_shapes.h"

#include <algorithm>

#include "model/deepseek2.h"
#include "model/transformer.h"

namespace smelt {
namespace {

Deepseek2Parameters glm_flash() {
  return {
      .common = {.layers = 47, .vocabulary = 154880, .context = 202752, .hidden = 2048, .epsilon = 1e-5},
      .attention =
          {.heads = 20, .q_lora = 768, .kv_lora = 512, .nope = 192, .v_head = 256, .rope = {.width = 64, .base = 1e6}},
      .dense_layers = 1,
      .dense_width = 10240,
      .experts = {.count = 64,
                  .used = 4,
                  .width = 1536,
                  .shared_width = 1536,
                  .routing = Routing::Sigmoid,
                  .selection_bias = true,
                  .normalise_weights = true,
                  .weights_scale = 1.8}};
}

Deepseek2Parameters deepseek_lite() {
  return {.common = {.layers = 27, .vocabulary = 102400, .context = 163840, .hidden = 2048, .epsilon = 1e-6},
          .attention = {.heads = 16,
                        .q_lora = 0,
                        .kv_lora = 512,
                        .nope = 128,
                        .v_head = 128,
                        .rope = {.width = 64,
                                 .base = 1e4,
                                 .scaling = RopeScaling::Yarn,
                                 .factor = 40,
                                 .original_context = 4096,
                                 .log_multiplier = 0.0707}},
          .dense_layers = 1,
          .dense_width = 10944,
          .experts = {.count = 64, .used = 6, .width = 1408, .shared_width = 2 * 1408, .routing = Routing::Softmax}};
}

Deepseek2Parameters moonlight() {
  Deepseek2Parameters m = deepseek_lite();
  m.common.vocabulary = 163840;
  m.common.context = 8192;
  m.common.epsilon = 1e-5;
  m.attention.rope = {.width = m.attention.rope.width, .base = 5e4};
  m.dense_width = 11264;
  m.experts.routing = Routing::Sigmoid;
  m.experts.selection_bias = true;
  m.experts.normalise_weights = true;
  m.experts.weights_scale = 2.446;
  return m;
}

Deepseek2Parameters kimi_k2() {
  return {.common = {.layers = 61, .vocabulary = 163840, .context = 131072, .hidden = 7168, .epsilon = 1e-6},
          .attention = {.heads = 64,
                        .q_lora = 1536,
                        .kv_lora = 512,
                        .nope = 128,
                        .v_head = 128,
                        .rope = {.width = 64,
                                 .base = 5e4,
                                 .scaling = RopeScaling::Yarn,
                                 .factor = 32,
                                 .original_context = 4096,
                                 .log_multiplier = 0.1}},
          .dense_layers = 1,
          .dense_width = 18432,
          .experts = {.count = 384,
                      .used = 8,
                      .width = 2048,
                      .shared_width = 2048,
                      .routing = Routing::Sigmoid,
                      .selection_bias = true,
                      .normalise_weights = true,
                      .weights_scale = 2.827}};
}

// Small enough for tests and for a first look; widths are whole blocks of every format.
Deepseek2Parameters tiny(Deepseek2Parameters m) {
  m.common.layers = 3;
  m.common.vocabulary = 2048;
  m.common.context = 8192;
  m.common.hidden = 256;
  m.attention.heads = 4;
  m.attention.q_lora = m.attention.q_lora ? 256 : 0;
  m.dense_width = 512;
  m.experts.count = 16;
  m.experts.shared_width = m.experts.shared_width / m.experts.width * 256;
  m.experts.width = 256;
  return m;
}

TransformerParameters llama_3_1_8b() {
  return {.common = {.architecture = "llama",
                     .layers = 32,
                     .vocabulary = 128256,
                     .context = 131072,
                     .hidden = 4096,
                     .epsilon = 1e-5},
          .attention =
              {.heads = 32, .kv_heads = 8, .key_width = 128, .value_width = 128, .rope = {.width = 128, .base = 5e5}},
          .dense_layers = 32,
          .dense_width = 14336};
}

TransformerParameters llama_3_2_3b() {
  TransformerParameters m = llama_3_1_8b();
  m.common.layers = m.dense_layers = 28;
  m.common.hidden = 3072;
  m.common.tied_output = true;
  m.attention.heads = 24;
  m.dense_width = 8192;
  return m;
}

TransformerParameters qwen2_5_7b() {
  return {.common = {.architecture = "qwen2",
                     .layers = 28,
                     .vocabulary = 152064,
                     .context = 32768,
                     .hidden = 3584,
                     .epsilon = 1e-6},
          .attention = {.heads = 28,
                        .kv_heads = 4,
                        .key_width = 128,
                        .value_width = 128,
                        .has_bias = true,
                        .rope = {.width = 128, .base = 1e6},
                        .order = RopeOrder::Halves},
          .dense_layers = 28,
          .dense_width = 18944};
}

TransformerParameters qwen3_8b() {
  return {.common = {.architecture = "qwen3",
                     .layers = 36,
                     .vocabulary = 151936,
                     .context = 40960,
                     .hidden = 4096,
                     .epsilon = 1e-6},
          .attention = {.heads = 32,
                        .kv_heads = 8,
                        .key_width = 128,
                        .value_width = 128,
                        .has_norms = true,
                        .rope = {.width = 128, .base = 1e6},
                        .order = RopeOrder::Halves},
          .dense_layers = 36,
          .dense_width = 12288};
}

TransformerParameters qwen3_30b_a3b() {
  TransformerParameters m = qwen3_8b();
  m.common.architecture = "qwen3moe";
  m.common.layers = 48;
  m.common.hidden = 2048;
  m.attention.kv_heads = 4;
  m.dense_layers = 0;
  m.dense_width = 0;
  m.experts = {.count = 128, .used = 8, .width = 768, .routing = Routing::Softmax, .normalise_weights = true};
  return m;
}

TransformerParameters qwen3_5_35b_a3b() {
  return {.common = {.architecture = "qwen35moe",
                     .layers = 40,
                     .vocabulary = 248320,
                     .context = 262144,
                     .hidden = 2048,
                     .epsilon = 1e-6},
          .attention = {.heads = 16,
                        .kv_heads = 2,
                        .key_width = 256,
                        .value_width = 256,
                        .is_gated = true,
                        .has_norms = true,
                        .rope = {.width = 64, .base = 1e7},
                        .order = RopeOrder::Halves},
          .attention_every = 4,
          .delta_net = {.key_heads = 16, .value_heads = 32, .width = 128, .taps = 4},
          .network_norm = "post_attention_norm",
          .experts = {.count = 256,
                      .used = 8,
                      .width = 512,
                      .shared_width = 512,
                      .has_shared_gate = true,
                      .routing = Routing::Softmax,
                      .normalise_weights = true}};
}

TransformerParameters glm_4_5_air() {
  return {.common = {.architecture = "glm4moe",
                     .layers = 46,
                     .vocabulary = 151552,
                     .context = 131072,
                     .hidden = 4096,
                     .epsilon = 1e-5},
          .attention = {.heads = 96,
                        .kv_heads = 8,
                        .key_width = 128,
                        .value_width = 128,
                        .has_bias = true,
                        .rope = {.width = 64, .base = 1e6},
                        .order = RopeOrder::Halves},
          .network_norm = "post_attention_norm",
          .dense_layers = 1,
          .dense_width = 10944,
          .experts = {.count = 128,
                      .used = 8,
                      .width = 1408,
                      .shared_width = 1408,
                      .routing = Routing::Sigmoid,
                      .selection_bias = true,
                      .normalise_weights = true}};
}

TransformerParameters gemma_3_12b() {
  TransformerParameters m{
      .common = {.architecture = "gemma3",
                 .layers = 48,
                 .vocabulary = 262144,
                 .context = 131072,
                 .hidden = 3840,
                 .epsilon = 1e-6,
                 .tied_output = true},
      .attention = {.heads = 16,
                    .kv_heads = 8,
                    .key_width = 256,
                    .value_width = 256,
                    .has_norms = true,
                    .rope = {.width = 256, .base = 1e6, .scaling = RopeScaling::Linear, .factor = 8},
                    .order = RopeOrder::Halves},
      .global_every = 6,
      .dense_layers = 48,
      .dense_width = 15360,
      .activation = Activation::GeluTanh,
      .post_norms = true};
  m.local_attention = m.attention;
  m.local_attention.window = 1024;
  m.local_attention.rope = {.width = 256, .base = 1e4};
  return m;
}

TransformerParameters gpt_oss_20b() {
  TransformerParameters m{
      .common = {.architecture = "gpt-oss",
                 .layers = 24,
                 .vocabulary = 201088,
                 .context = 131072,
                 .hidden = 2880,
                 .epsilon = 1e-5},
      .attention =
          {.heads = 64,
           .kv_heads = 8,
           .key_width = 64,
           .value_width = 64,
           .has_bias = true,
           .has_output_bias = true,
           .has_sinks = true,
           .rope = {.width = 64, .base = 150000, .scaling = RopeScaling::Yarn, .factor = 32, .original_context = 4096},
           .order = RopeOrder::Halves},
      .global_every = 2,
      .network_norm = "post_attention_norm",
      .experts = {.count = 32,
                  .used = 4,
                  .width = 2880,
                  .routing = Routing::Softmax,
                  .normalise_weights = true,
                  .router_bias = true,
                  .has_bias = true,
                  .activation = Activation::ClampedSwiglu}};
  m.local_attention = m.attention;
  m.local_attention.window = 128;
  return m;
}

TransformerParameters tiny(TransformerParameters m) {
  m.common.layers = m.dense_layers = 3;
  m.common.vocabulary = 2048;
  m.common.context = 8192;
  m.common.hidden = 256;
  m.attention.heads = 4;
  m.attention.kv_heads = 2;
  m.dense_width = 512;
  return m;
}

KnownShape named(const char* name, Deepseek2Parameters p) {
  p.common.architecture = "deepseek2";
  const auto first = [p](int64_t layers) {
    Deepseek2Parameters part = p;
    part.common.layers = layers;
    part.dense_layers = std::min(part.dense_layers, layers);
    return std::make_shared<const Deepseek2>(part);
  };
  return {name, first, p.common.layers};
}

KnownShape named(const char* name, TransformerParameters p) {
  const auto first = [p](int64_t layers) {
    TransformerParameters part = p;
    part.common.layers = layers;
    part.dense_layers = std::min(part.dense_layers, layers);
    return std::make_shared<const Transformer>(part);
  };
  return {name, first, p.common.layers};
}

}  // namespace

const std::vector<KnownShape>& known_shapes() {
  static const std::vector<KnownShape> list = {
      named("glm-4.7-flash", glm_flash()),       named("deepseek-v2-lite", deepseek_lite()),
      named("moonlight-16b-a3b", moonlight()),   named("kimi-k2", kimi_k2()),
      named("llama-3.1-8b", llama_3_1_8b()),     named("llama-3.2-3b", llama_3_2_3b()),
      named("qwen2.5-7b", qwen2_5_7b()),         named("qwen3-8b", qwen3_8b()),
      named("qwen3-30b-a3b", qwen3_30b_a3b()),   named("qwen3.5-35b-a3b", qwen3_5_35b_a3b()),
      named("glm-4.5-air", glm_4_5_air()),       named("gemma-3-12b", gemma_3_12b()),
      named("gpt-oss-20b", gpt_oss_20b()),       named("tiny-glm", tiny(glm_flash())),
      named("tiny-lite", tiny(deepseek_lite())), named("tiny-llama", tiny(llama_3_1_8b())),
  };
  return list;
}

}  // namespace smelt
