#include "app/synthetic_shapes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/known_shapes.h"
#include "app/type_mix.h"
#include "base/ensure.h"
#include "base/printable.h"

namespace smelt {
namespace {

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
  const bool is_small = name.starts_with("ffn_gate_inp") || name == "ssm_conv1d";
  if (tensor.rows.empty() || is_small || tensor.name.ends_with(".bias")) return GgufType::F32;
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
  if (name == "ssm_a") t.mean = -1;  // a state fades
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
  for (const KnownShape& s : known_shapes()) names.push_back(s.name);
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
  const auto found = std::find_if(known_shapes().begin(), known_shapes().end(),
                                  [&](const KnownShape& s) { return s.name == parts[0]; });
  if (found == known_shapes().end())
    return refused(text, "the shape is unknown; choose from " + listed(synthetic_shapes()));
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
