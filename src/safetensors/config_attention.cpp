// Heads, latents, windows and rotary positions of a config.json.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "safetensors/config_parts.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

// Llama 3.1 and later: frequencies that turn less than once in the original context are divided by the factor, those
// that turn often are kept, a ramp in between (the models' own code).
std::vector<float> llama3_divisors(ConfigReader& rope, double base, uint32_t width) {
  const double factor = rope.real("factor"), low = rope.real_or("low_freq_factor", 1),
               high = rope.real_or("high_freq_factor", 4),
               context = rope.real_or("original_max_position_embeddings", 8192);
  if (!(factor >= 1 && low > 0 && high > low && context > 0))
    rope.refuse("rope_scaling has factors out of their order");
  if (!rope.status()) return {};
  std::vector<float> divisors;
  for (uint32_t i = 0; i < width / 2; ++i) {
    const double turns = context * std::pow(base, -2.0 * i / width) / (2 * M_PI);
    const double kept = std::min(1.0, std::max(0.0, (turns - low) / (high - low)));
    divisors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
  }
  return divisors;
}

// Factors that frequencies are divided by.
std::vector<float> factors_at(ConfigReader& rope, const char* key, uint32_t count) {
  const Json& list = rope.at(key);
  std::vector<float> factors;
  for (const Json& factor : list.is_array() ? list : Json::array())
    factors.push_back(factor.is_number() ? factor.get<float>() : 0);
  const bool all_divide =
      std::all_of(factors.begin(), factors.end(), [](float f) { return f > 0 && std::isfinite(f); });
  if (factors.size() != count || !all_divide)
    rope.refuse(std::string(key) + " of rope_scaling is no list of " + std::to_string(count) + " numbers above 0");
  return factors;
}

// Phi 3's: for contexts up to the one that the model was first made for, and for longer ones.
void read_long_factors(ConfigPass& pass, ConfigReader& rope, uint32_t rotated) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const uint32_t longest = pass.in.whole("max_position_embeddings"),
                 original = rope.whole_or(kOriginal, pass.in.whole_or(kOriginal, longest));
  if (original < 2) return rope.refuse(std::string(kOriginal) + " is not above 1");
  const double factor = static_cast<double>(longest) / original,
               usual = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1;
  pass.out.real("rope.scaling.attn_factor", rope.real_or("attention_factor", usual));
  pass.out.number("rope.scaling.original_context_length", original);
  pass.model.divisors["rope_factors_short.weight"] = factors_at(rope, "short_factor", rotated / 2);
  pass.model.divisors["rope_factors_long.weight"] = factors_at(rope, "long_factor", rotated / 2);
}

const Json& object_or(const Json& json, const char* key, const Json& fallback) {
  return json.is_object() && json.contains(key) && json.at(key).is_object() ? json.at(key) : fallback;
}

// Newer files have rope_parameters, with the base in it; of models with windows, one for each kind of layer.
const Json& rope_of(const Json& config, const char* kind_of_layer = "full_attention") {
  static const Json none = Json::object();
  const Json& rope = object_or(config, "rope_parameters", object_or(config, "rope_scaling", none));
  return object_or(rope, kind_of_layer, rope);
}

void read_yarn(ConfigReader& rope, const HubConfig& model, ArchitectureKeys& out) {
  if (rope.has("beta_fast")) out.real("rope.scaling.yarn_beta_fast", rope.real("beta_fast"));
  if (rope.has("beta_slow")) out.real("rope.scaling.yarn_beta_slow", rope.real("beta_slow"));
  if (model.v_head == 0) {
    constexpr double kNear = 1e-3;
    const double usual = 0.1 * std::log(rope.real("factor")) + 1, factor = rope.real_or("attention_factor", usual);
    if (std::abs(factor - usual) > kNear) rope.refuse("attention_factor of rope_scaling is not supported");
    return;
  }
  // DeepSeek's: scores are multiplied by it, and what is rotated by the quotient of both.
  const double all = rope.real_or("mscale_all_dim", 0);
  if (rope.real_or("mscale", 1) != all && !(all == 0 && !rope.has("mscale")))
    rope.refuse("mscale and mscale_all_dim of rope_scaling differ, which is not supported");
  out.real("rope.scaling.yarn_log_multiplier", 0.1 * all);
}

// Qwen 3.5's: the pairs that turn by the place in time, in height and in width. In a text these places are one, so that
// nothing here reads it; programs that a GGUF file of the folder is for do.
void keep_sections(ConfigPass& pass, ConfigReader& rope) {
  constexpr size_t kSections = 4;
  const Json& list = rope.at("mrope_section");
  if (!list.is_array() || list.size() > kSections) return;
  std::vector<int32_t> sections(kSections);
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_number_unsigned() || list[i] > INT16_MAX) return;
    sections[i] = list[i].get<int32_t>();
  }
  pass.out.numbers("rope.dimension_sections", sections);
}

// `rotated`: values of a head that turn.
void read_rope(ConfigPass& pass, uint32_t rotated) {
  const Json& config = pass.in.json();
  ConfigReader rope(rope_of(config));
  const double base = rope.real_or("rope_theta", pass.in.real_or("rope_theta", 10000));
  pass.out.number("rope.dimension_count", rotated);
  pass.out.real("rope.freq_base", base);
  keep_sections(pass, rope);
  const std::string kind = rope.text_or("rope_type", rope.text_or("type", "default"));
  if (kind == "llama3") {
    pass.model.divisors["rope_freqs.weight"] = llama3_divisors(rope, base, rotated);
  } else if ((kind == "longrope" || kind == "su") && pass.model.family->has_long_factors) {
    read_long_factors(pass, rope, rotated);
  } else if (kind == "linear" || kind == "yarn") {
    pass.out.text("rope.scaling.type", kind);
    pass.out.real("rope.scaling.factor", rope.real("factor"));
    if (rope.has("original_max_position_embeddings"))
      pass.out.number("rope.scaling.original_context_length", rope.whole("original_max_position_embeddings"));
    if (kind == "yarn") read_yarn(rope, pass.model, pass.out);
  } else if (kind != "default") {
    rope.refuse("rope_scaling " + printable(kind) + " is not supported; default, linear, yarn and llama3 are");
  }
  pass.in.keep(rope.status());
}

// Of `width` values of a head; an even number.
uint32_t rotated_of(ConfigPass& pass, uint32_t width) {
  ConfigReader rope(rope_of(pass.in.json()));
  const double part = rope.real_or("partial_rotary_factor", pass.in.real_or("partial_rotary_factor", 1));
  pass.in.keep(rope.status());
  if (!(part > 0 && part <= 1)) pass.in.refuse("partial_rotary_factor is not above 0 and at most 1");
  return part > 0 && part <= 1 ? static_cast<uint32_t>(width * part) : width;
}

// The layers whose kind is "full_attention" are every n-th, counted from 1: n. 0: they are not.
uint32_t period_of(const Json& kinds) {
  uint32_t period = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const bool is_full = kinds[i].is_string() && kinds[i].get_ref<const std::string&>() == "full_attention";
    if (is_full && period == 0) period = static_cast<uint32_t>(i + 1);
    if (is_full != (period != 0 && (i + 1) % period == 0)) return 0;
  }
  // Fewer layers than a period: each length that is longer will do.
  return period ? period : static_cast<uint32_t>(kinds.size() + 1);
}

}  // namespace

std::optional<uint32_t> period_of_layers(ConfigReader& in) {
  if (!in.has("layer_types")) return std::nullopt;
  const uint32_t period = in.at("layer_types").is_array() ? period_of(in.at("layer_types")) : 0;
  if (period == 0) in.refuse("layer_types has no order that is supported: full_attention has to be every n-th layer");
  return period;
}

void read_heads(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  const uint32_t hidden = in.whole("hidden_size"), heads = in.whole("num_attention_heads"),
                 kv_heads = in.whole_or("num_key_value_heads", heads),
                 width = in.whole_or("head_dim", heads ? hidden / heads : 0), rotated = rotated_of(pass, width);
  if (heads == 0 || kv_heads == 0 || width == 0 || width % 2 != 0 || rotated == 0 || rotated % 2 != 0)
    return in.refuse("hidden_size, num_attention_heads and head_dim do not go together");
  pass.model.heads = heads;
  pass.model.kv_heads = kv_heads;
  pass.out.number("attention.head_count", heads);
  pass.out.number("attention.head_count_kv", kv_heads);
  pass.out.number("attention.key_length", width);
  pass.out.number("attention.value_length", width);
  if (const double scalar = in.real_or("query_pre_attn_scalar", width); scalar != width) {
    if (scalar <= 0) in.refuse("query_pre_attn_scalar is not above 0");
    pass.out.real("attention.scale", 1 / std::sqrt(scalar));
  }
  read_rope(pass, rotated);
}

void read_latents(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  const uint32_t heads = in.whole("num_attention_heads"), lora = in.whole("kv_lora_rank"),
                 nope = in.whole("qk_nope_head_dim"), rotated = in.whole("qk_rope_head_dim"),
                 value = in.whole("v_head_dim");
  constexpr uint32_t kMost = 1 << 24;  // sums of two are numbers, too
  if (heads == 0 || nope == 0 || value == 0 || std::max({heads, lora, nope, rotated, value}) > kMost)
    return in.refuse("num_attention_heads, kv_lora_rank and widths of heads do not go together");
  pass.model.heads = heads;
  pass.model.nope = nope;
  pass.model.v_head = value;
  pass.out.number("attention.head_count", heads);
  pass.out.number("attention.head_count_kv", 1);
  if (in.has("q_lora_rank")) pass.out.number("attention.q_lora_rank", in.whole("q_lora_rank"));
  pass.out.number("attention.kv_lora_rank", lora);
  pass.out.number("attention.key_length", lora + rotated);
  pass.out.number("attention.value_length", lora);
  pass.out.number("attention.key_length_mla", nope + rotated);
  pass.out.number("attention.value_length_mla", value);
  read_rope(pass, rotated);
}

void read_windows(ConfigPass& pass) {
  ConfigReader& in = pass.in;
  pass.out.number("attention.sliding_window", in.whole("sliding_window"));
  if (const auto period = period_of_layers(in)) {
    pass.out.number("attention.sliding_window_pattern", *period);
  } else if (in.has("sliding_window_pattern")) {
    pass.out.number("attention.sliding_window_pattern", in.whole("sliding_window_pattern"));
  }
  ConfigReader local(rope_of(in.json(), "sliding_attention"));
  if (in.has("rope_local_base_freq"))
    pass.out.real("rope.freq_base_swa", local.real_or("rope_theta", in.real("rope_local_base_freq")));
  in.keep(local.status());
}

void read_own_window(ConfigPass& pass) {
  if (pass.in.has("sliding_window")) pass.out.number("attention.sliding_window", pass.in.whole("sliding_window"));
}

void read_temperature(ConfigPass& pass) {
  ConfigReader rope(rope_of(pass.in.json()));
  if (rope.real_or("mscale", 1) != rope.real_or("mscale_all_dim", 1))
    rope.refuse("mscale and mscale_all_dim of rope_parameters differ, which is not supported");
  if (rope.has("llama_4_scaling_beta")) pass.out.real("attention.temperature_scale", rope.real("llama_4_scaling_beta"));
  pass.in.keep(rope.status());
}

void refuse_windows(ConfigPass& pass) {
  const HubFamily& family = *pass.model.family;
  if (pass.in.has("sliding_window") && pass.in.flag_or("use_sliding_window", family.has_windows_by_default))
    pass.in.refuse("sliding_window is not supported for this model; convert it to a GGUF file");
}

}  // namespace smelt
