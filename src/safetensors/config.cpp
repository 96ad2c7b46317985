#include "safetensors/config.h"

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "safetensors/config_parts.h"
#include "safetensors/tensor_table.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

Result<const HubFamily*> family_of(const ConfigReader& config) {
  const std::string type = config.text_or("model_type", "");
  std::string known;
  for (const HubFamily& family : hub_families()) {
    if (type == family.model_type) return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return safetensors_error("config.json", "model_type \"" + printable(type) + "\" is not read from a folder; " + known +
                                              " are. Convert it to a GGUF file");
}

// Models that also see have the numbers of the part that writes in an object of their own.
const Json& text_part(const Json& config) {
  return config.contains("text_config") && config.at("text_config").is_object() ? config.at("text_config") : config;
}

void read_network(ConfigPass& pass) { pass.out.number("feed_forward_length", pass.in.whole("intermediate_size")); }

void read_common(ConfigPass& pass) {
  // Layers that predict tokens further ahead lie behind the others.
  const uint32_t layers = pass.in.whole("num_hidden_layers"), more = pass.in.whole_or("num_nextn_predict_layers", 0);
  if (more > UINT32_MAX - layers) pass.in.refuse("num_nextn_predict_layers is too large");
  pass.out.number("block_count", layers + more);
  if (more) pass.out.number("nextn_predict_layers", more);
  pass.out.number("context_length", pass.in.whole("max_position_embeddings"));
  pass.out.number("embedding_length", pass.in.whole("hidden_size"));
  pass.out.real("attention.layer_norm_rms_epsilon", pass.in.real("rms_norm_eps"));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (pass.in.has(key)) pass.in.refuse(std::string(key) + " is not supported");
}

void read_part(ConfigPart part, ConfigPass& pass) {
  switch (part) {
    case ConfigPart::Heads: return read_heads(pass);
    case ConfigPart::Latents: return read_latents(pass);
    case ConfigPart::Network: return read_network(pass);
    case ConfigPart::SoftmaxExperts: return read_softmax_experts(pass);
    case ConfigPart::RoutedExperts: return read_routed_experts(pass);
    case ConfigPart::LocalExperts: return read_local_experts(pass);
    case ConfigPart::DeltaNets: return read_delta_nets(pass);
    case ConfigPart::Multipliers: return read_multipliers(pass);
    case ConfigPart::Temperature: return read_temperature(pass);
    case ConfigPart::Windows: return read_windows(pass);
    case ConfigPart::OwnWindow: return read_own_window(pass);
    case ConfigPart::NoWindows: return refuse_windows(pass);
  }
}

}  // namespace

Result<HubConfig> read_config(const Json& config, NewMetadata& out) {
  if (!config.is_object()) return safetensors_error("config.json", "it is no JSON object");
  const Json& text = text_part(config);
  SMELT_TRY(family, family_of(ConfigReader(text)));
  const Json defaults = Json::parse(family->defaults);
  ConfigReader in(text, defaults);
  ArchitectureKeys keys(out, family->architecture);
  HubConfig model{.family = family};
  ConfigPass pass{in, model, keys};
  out.text("general.architecture", std::string(family->architecture));
  read_common(pass);
  for (const ConfigPart part : family->parts) read_part(part, pass);
  SMELT_CHECK(in.status());
  return model;
}

}  // namespace smelt
