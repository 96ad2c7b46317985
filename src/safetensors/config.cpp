#include "safetensors/config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "safetensors/tensor_table.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

// Reads one number after the other and keeps the first error.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  uint32_t whole(const char* key) { return has(key) ? whole_at(key) : missing(key); }
  uint32_t whole_or(const char* key, uint32_t fallback) { return has(key) ? whole_at(key) : fallback; }
  double real(const char* key) {
    if (has(key) && json_.at(key).is_number() && std::isfinite(json_.at(key).get<double>())) return json_.at(key);
    return missing(key);
  }
  double real_or(const char* key, double fallback) { return has(key) ? real(key) : fallback; }
  std::string text_or(const char* key, const std::string& fallback) const {
    return has(key) && json_.at(key).is_string() ? json_.at(key).get<std::string>() : fallback;
  }
  bool flag_or(const char* key, bool fallback) const {
    return has(key) && json_.at(key).is_boolean() ? json_.at(key).get<bool>() : fallback;
  }
  void refuse(const std::string& what) {
    if (!error_) error_ = safetensors_error("config.json", what);
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  uint32_t whole_at(const char* key) {
    const Json& value = json_.at(key);
    if (value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX) return value.get<uint32_t>();
    refuse(std::string(key) + " is " + (value.is_primitive() ? printable(value.dump(), 40) : value.type_name()) +
           ", no whole number");
    return 1;
  }
  uint32_t missing(const char* key) {
    refuse(std::string(key) + " is missing, or no number");
    return 1;
  }

  const Json& json_;
  std::optional<Error> error_;
};

// Llama 3.1 and later: frequencies that turn less than once in the original context are divided by the factor, those
// that turn often are kept, a ramp in between (the models' own code).
std::vector<float> llama3_divisors(Reader& rope, double base, uint32_t width) {
  const double factor = rope.real("factor"), low = rope.real_or("low_freq_factor", 1),
               high = rope.real_or("high_freq_factor", 4),
               context = rope.real_or("original_max_position_embeddings", 8192);
  if (!(factor >= 1 && low > 0 && high > low && context > 0))
    rope.refuse("rope_scaling has factors out of their order");
  if (rope.error()) return {};
  std::vector<float> divisors;
  for (uint32_t i = 0; i < width / 2; ++i) {
    const double turns = context * std::pow(base, -2.0 * i / width) / (2 * M_PI);
    const double kept = std::min(1.0, std::max(0.0, (turns - low) / (high - low)));
    divisors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
  }
  return divisors;
}

// Newer files have rope_parameters, with the base in it.
const Json& rope_of(const Json& config) {
  static const Json none = Json::object();
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (config.contains(key) && config.at(key).is_object()) return config.at(key);
  return none;
}

Status write_rope(const Json& config, const std::string& prefix, uint32_t width, HubConfig& model, NewMetadata& out) {
  Reader rope(rope_of(config)), all(config);
  const double base = rope.real_or("rope_theta", all.real_or("rope_theta", 10000));
  out.number(prefix + "rope.dimension_count", width);
  out.real(prefix + "rope.freq_base", static_cast<float>(base));
  const std::string kind = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (kind == "llama3") {
    model.divisors = llama3_divisors(rope, base, width);
  } else if (kind == "linear" || kind == "yarn") {
    out.text(prefix + "rope.scaling.type", kind);
    out.real(prefix + "rope.scaling.factor", static_cast<float>(rope.real("factor")));
    if (rope.has("original_max_position_embeddings"))
      out.number(prefix + "rope.scaling.original_context_length", rope.whole("original_max_position_embeddings"));
  } else if (kind != "default") {
    rope.refuse("rope_scaling " + printable(kind) + " is not supported; default, linear, yarn and llama3 are");
  }
  if (rope.error()) return *rope.error();
  return all.error() ? Status(*all.error()) : Status();
}

struct Family {
  const char* model_type;
  const char* architecture;
  bool swaps_pairs;
};
constexpr Family kFamilies[] = {
    {"llama", "llama", true}, {"mistral", "llama", true}, {"qwen2", "qwen2", false}, {"qwen3", "qwen3", false}};

Result<Family> family_of(const Reader& config) {
  const std::string type = config.text_or("model_type", "");
  std::string known;
  for (const Family& family : kFamilies) {
    if (type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return safetensors_error("config.json", "model_type \"" + printable(type) + "\" is not read from a folder; " + known +
                                              " are. Convert it to a GGUF file");
}

}  // namespace

Result<HubConfig> read_config(const Json& config, NewMetadata& out) {
  if (!config.is_object()) return safetensors_error("config.json", "it is no JSON object");
  Reader in(config);
  SMELT_TRY(family, family_of(in));
  if (in.has("sliding_window") && in.flag_or("use_sliding_window", family.swaps_pairs))
    return safetensors_error("config.json",
                             "sliding_window is not supported for this model; convert it to a GGUF file");
  HubConfig model{.architecture = family.architecture, .swaps_pairs = family.swaps_pairs};
  const std::string prefix = model.architecture + ".";
  const uint32_t hidden = in.whole("hidden_size"), heads = in.whole("num_attention_heads");
  model.heads = heads;
  model.kv_heads = in.whole_or("num_key_value_heads", heads);
  const uint32_t width = in.whole_or("head_dim", heads ? hidden / heads : 0);
  if (heads == 0 || model.kv_heads == 0 || width == 0 || width % 2 != 0)
    in.refuse("hidden_size, num_attention_heads and head_dim do not go together");
  out.text("general.architecture", model.architecture);
  out.number(prefix + "block_count", in.whole("num_hidden_layers"));
  out.number(prefix + "context_length", in.whole("max_position_embeddings"));
  out.number(prefix + "embedding_length", hidden);
  out.number(prefix + "feed_forward_length", in.whole("intermediate_size"));
  out.number(prefix + "attention.head_count", heads);
  out.number(prefix + "attention.head_count_kv", static_cast<uint32_t>(model.kv_heads));
  out.number(prefix + "attention.key_length", width);
  out.number(prefix + "attention.value_length", width);
  out.real(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(in.real("rms_norm_eps")));
  if (in.error()) return *in.error();
  SMELT_CHECK(write_rope(config, prefix, width, model, out));
  return model;
}

}  // namespace smelt
