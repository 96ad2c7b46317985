#include "app/synthetic_shapes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "app/type_mix.h"
#include "base/ensure.h"
#include "base/printable.h"
#include "model/deepseek2.h"
#include "model/transformer.h"

namespace smelt {
namespace {

// A known model, cut to its first layers.
struct NamedShape {
  const char* name;
  std::function<std::shared_ptr<const Model>(int64_t layers)> first_layers;
  int64_t layers;
};

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

NamedShape named(const char* name, Deepseek2Parameters p) {
  p.common.architecture = "deepseek2";
  const auto first = [p](int64_t layers) {
    Deepseek2Parameters part = p;
    part.common.layers = layers;
    part.dense_layers = std::min(part.dense_layers, layers);
    return std::make_shared<const Deepseek2>(part);
  };
  return {name, first, p.common.layers};
}

NamedShape named(const char* name, TransformerParameters p) {
  const auto first = [p](int64_t layers) {
    TransformerParameters part = p;
    part.common.layers = layers;
    part.dense_layers = std::min(part.dense_layers, layers);
    return std::make_shared<const Transformer>(part);
  };
  return {name, first, p.common.layers};
}

const std::vector<NamedShape>& shapes() {
  static const std::vector<NamedShape> list = {
      named("glm-4.7-flash", glm_flash()),       named("deepseek-v2-lite", deepseek_lite()),
      named("moonlight-16b-a3b", moonlight()),   named("kimi-k2", kimi_k2()),
      named("llama-3.1-8b", llama_3_1_8b()),     named("llama-3.2-3b", llama_3_2_3b()),
      named("qwen2.5-7b", qwen2_5_7b()),         named("qwen3-8b", qwen3_8b()),
      named("qwen3-30b-a3b", qwen3_30b_a3b()),   named("glm-4.5-air", glm_4_5_air()),
      named("gemma-3-12b", gemma_3_12b()),       named("gpt-oss-20b", gpt_oss_20b()),
      named("tiny-glm", tiny(glm_flash())),      named("tiny-lite", tiny(deepseek_lite())),
      named("tiny-llama", tiny(llama_3_1_8b())),
  };
  return list;
}

std::string short_name(const std::string& tensor) { return tensor.substr(0, tensor.find_last_of('.')); }

// --- types

GgufType q4_0_type(const std::string& name, int64_t, int64_t) {
  if (name == "attn_k_b" || name == "attn_v_b") return GgufType::Q8_0;
  if (name == "ffn_gate_shexp" || name == "ffn_up_shexp") return GgufType::Q5_K;
  if (name == "ffn_down_shexp" || name == "output") return GgufType::Q6_K;
  return GgufType::Q4_0;
}

GgufType q4_k_m_type(const std::string& name, int64_t layer, int64_t layers) {
  return type_in_mix(*find_mix("Q4_K_M"), name, layer, layers);
}
GgufType q5_k_m_type(const std::string& name, int64_t layer, int64_t layers) {
  return type_in_mix(*find_mix("Q5_K_M"), name, layer, layers);
}

// As the files of gpt-oss are.
GgufType mxfp4_moe_type(const std::string& name, int64_t, int64_t) {
  return name.ends_with("_exps") ? GgufType::MXFP4 : GgufType::Q8_0;
}

struct NamedMix {
  const char* name;
  GgufType (*type)(const std::string& tensor, int64_t layer, int64_t layers);
};
constexpr NamedMix kMixes[] = {
    {"q4_0", q4_0_type}, {"q4_k_m", q4_k_m_type}, {"q5_k_m", q5_k_m_type}, {"mxfp4_moe", mxfp4_moe_type}};

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// A mix of one type, "q8_0", "f16".
std::optional<GgufType> uniform_type(const std::string& mix) {
  std::string name = mix;
  for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  const auto type = gguf_type_from_name(name);
  return type && info_of(*type).supported ? type : std::nullopt;
}

const NamedMix* named_mix(const std::string& name) {
  for (const NamedMix& mix : kMixes)
    if (mix.name == name) return &mix;
  return nullptr;
}

GgufType type_of(const SyntheticSpec& spec, const TensorShape& tensor, int64_t layer) {
  std::string name = short_name(tensor.name);
  if (name == "token_embd" && spec.model->numbers().tied_output) name = "output";
  if (tensor.rows.empty() || name == "ffn_gate_inp" || tensor.name.ends_with(".bias")) return GgufType::F32;
  const NamedMix* mix = named_mix(spec.mix);
  return that_fits(mix ? mix->type(name, layer, spec.model->numbers().layers) : *uniform_type(spec.mix), tensor.k);
}

// --- values

// Products keep the size of what goes in; what is added to the residual stream grows it a little, so that layers
// differ.
double deviation_of(const std::string& name, const TensorShape& t) {
  const double k = static_cast<double>(t.k);
  if (name == "token_embd") return 1;
  if (name == "output") return 2.5 / std::sqrt(k);
  if (name == "exp_probs_b") return 0.05;
  if (t.rows.empty()) return 0.02;                                                   // norms and biases
  if (name == "attn_k_b") return 1 / std::sqrt(static_cast<double>(t.rows.back()));  // a sum over latents
  return (name.starts_with("ffn_down") ? 1.5 : 1) / std::sqrt(k);
}

SyntheticTensor tensor_of(const SyntheticSpec& spec, const TensorShape& shape, int64_t layer) {
  const std::string name = short_name(shape.name);
  SyntheticTensor t{.name = (layer >= 0 ? layer_prefix(layer) : "") + shape.name, .type = type_of(spec, shape, layer)};
  t.dims.push_back(static_cast<uint64_t>(shape.k));
  for (size_t i = shape.rows.size(); i-- > 0;) t.dims.push_back(static_cast<uint64_t>(shape.rows[i]));
  const GgufTypeInfo& info = info_of(t.type);
  t.bytes = t.dims[0] / info.elements * info.bytes;
  for (size_t i = 1; i < t.dims.size(); ++i) t.bytes *= t.dims[i];
  t.mean = shape.rows.empty() && name != "exp_probs_b" && !shape.name.ends_with(".bias") ? 1 : 0;
  t.deviation = deviation_of(name, shape);
  return t;
}

// --- names

Error refused(const std::string& text, const std::string& why) {
  return Error{"[synthetic] " + printable(text, 60) + ": " + why};
}

std::vector<std::string> split_at_colons(const std::string& text) {
  std::vector<std::string> parts = {""};
  for (char c : text)
    if (c == ':')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> synthetic_shapes() {
  std::vector<std::string> names;
  for (const NamedShape& s : shapes()) names.push_back(s.name);
  return names;
}

std::vector<std::string> synthetic_mixes() {
  std::vector<std::string> names;
  for (const NamedMix& mix : kMixes) names.push_back(mix.name);
  return names;
}

Result<SyntheticSpec> parse_synthetic(const std::string& text) {
  const std::vector<std::string> parts = split_at_colons(lower(text));
  if (parts.size() > 3) return refused(text, "has the form SHAPE:MIX:LAYERS");
  const auto found =
      std::find_if(shapes().begin(), shapes().end(), [&](const NamedShape& s) { return s.name == parts[0]; });
  if (found == shapes().end()) return refused(text, "the shape is unknown; choose from " + listed(synthetic_shapes()));
  SyntheticSpec spec{
      .name = text, .shape_name = parts[0], .names_layers = parts.size() > 2, .model = {}, .mix = "q4_k_m"};
  if (parts.size() > 1) spec.mix = parts[1];
  if (!named_mix(spec.mix) && !uniform_type(spec.mix))
    return refused(text, "the mix is unknown; choose from " + listed(synthetic_mixes()) +
                             ", or name one type for all matrices, such as q8_0, q6_k or f16");
  int64_t layers = found->layers;
  if (parts.size() > 2) {
    const auto [end, error] = std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), layers);
    if (error != std::errc() || end != parts[2].data() + parts[2].size() || layers < 1 || layers > found->layers)
      return refused(text, "the number of layers is not one from 1 to " + std::to_string(found->layers));
  }
  spec.model = found->first_layers(layers);
  return spec;
}

std::vector<SyntheticTensor> tensors_of(const SyntheticSpec& spec) {
  std::vector<SyntheticTensor> out;
  out.push_back(tensor_of(spec, spec.model->embedding_tensor(), -1));
  for (int64_t layer = 0; layer < spec.model->numbers().layers; ++layer)
    for (const TensorShape& t : spec.model->layer_tensors(layer)) out.push_back(tensor_of(spec, t, layer));
  const std::string embedding = out.front().name;  // with a tied output, of the head, too
  for (const TensorShape& t : spec.model->head_tensors())
    if (t.name != embedding) out.push_back(tensor_of(spec, t, -1));
  return out;
}

uint64_t weight_bytes(const SyntheticSpec& spec) {
  uint64_t bytes = 0;
  for (const SyntheticTensor& t : tensors_of(spec)) bytes += t.bytes;
  return bytes;
}

}  // namespace smelt
