#include "app/type_mix.h"

#include <algorithm>

namespace smelt {
namespace {

// The layers that the _M mixes give more bits to.
bool is_precious(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// Formats of at most about three bits, whose mixes give more to the matrices that are small or lose most.
bool is_tiny(const TypeMix& mix) {
  return mix.name.starts_with("IQ1") || mix.name.starts_with("IQ2") || mix.name == "IQ3_XXS";
}
GgufType better_than_tiny(const TypeMix& mix) {
  const bool is_large = mix.name == "IQ2_S" || mix.name == "IQ2_M" || mix.name == "IQ3_XXS";
  return is_large ? GgufType::IQ3_S : GgufType::Q2_K;
}
bool is_ternary(const TypeMix& mix) { return mix.base == GgufType::TQ1_0 || mix.base == GgufType::TQ2_0; }

GgufType value_type(const TypeMix& mix, int64_t layer, int64_t layers) {
  const bool is_small = mix.name.starts_with("Q2_K") || mix.name.starts_with("IQ3");
  if (is_small || is_tiny(mix)) return GgufType::Q4_K;
  if (mix.name == "Q3_K_M") return layer < 2 ? GgufType::Q5_K : GgufType::Q4_K;
  if (mix.name == "Q3_K_L") return GgufType::Q5_K;
  if (mix.name == "Q4_K_S") return layer < 4 ? GgufType::Q5_K : mix.base;
  if (mix.name.ends_with("_M")) return is_precious(layer, layers) ? GgufType::Q6_K : mix.base;
  return mix.base;
}

GgufType down_type(const TypeMix& mix, int64_t layer, int64_t layers) {
  if (mix.name == "Q2_K") return GgufType::Q3_K;
  if (is_tiny(mix)) return layer < layers / 8 ? better_than_tiny(mix) : mix.base;
  if (mix.name == "Q2_K_S" || mix.name == "IQ3_M") return layer < layers / 8 ? GgufType::Q4_K : mix.base;
  if (mix.name == "Q3_K_M")
    return layer < layers / 16 ? GgufType::Q5_K : is_precious(layer, layers) ? GgufType::Q4_K : GgufType::Q3_K;
  if (mix.name == "Q3_K_L") return GgufType::Q5_K;
  if (mix.name == "Q4_K_S") return layer < layers / 8 ? GgufType::Q5_K : mix.base;
  if (mix.name.ends_with("_M")) return is_precious(layer, layers) ? GgufType::Q6_K : mix.base;
  return mix.base;
}

GgufType attention_output_type(const TypeMix& mix) {
  if (is_tiny(mix)) return better_than_tiny(mix);
  if (mix.name == "Q2_K") return GgufType::Q3_K;
  if (mix.name == "Q3_K_M" || mix.name == "IQ3_M") return GgufType::Q4_K;
  if (mix.name == "Q3_K_L") return GgufType::Q5_K;
  return mix.base;
}

// What IQ3_XS makes smaller than IQ3_S: queries and keys, gate and up of the layers between the first eighth and the
// last.
bool is_less_in_xs(std::string_view name, int64_t layer, int64_t layers) {
  if (name == "attn_q" || name == "attn_k") return true;
  const bool widens = name.starts_with("ffn_gate") || name.starts_with("ffn_up");
  return widens && layer >= layers / 8 && layer < 7 * layers / 8;
}

}  // namespace

const std::vector<TypeMix>& type_mixes() {
  static const std::vector<TypeMix> mixes = {
      {"F32", 0, GgufType::F32, true},     {"F16", 1, GgufType::F16, true},    {"BF16", 32, GgufType::BF16, true},
      {"Q8_0", 7, GgufType::Q8_0, true},   {"Q4_0", 2, GgufType::Q4_0},        {"Q4_1", 3, GgufType::Q4_1},
      {"Q5_0", 8, GgufType::Q5_0},         {"Q5_1", 9, GgufType::Q5_1},        {"Q2_K", 10, GgufType::Q2_K},
      {"Q2_K_S", 21, GgufType::Q2_K},      {"Q3_K_S", 11, GgufType::Q3_K},     {"Q3_K_M", 12, GgufType::Q3_K},
      {"Q3_K_L", 13, GgufType::Q3_K},      {"Q4_K_S", 14, GgufType::Q4_K},     {"Q4_K_M", 15, GgufType::Q4_K},
      {"Q5_K_S", 16, GgufType::Q5_K},      {"Q5_K_M", 17, GgufType::Q5_K},     {"Q6_K", 18, GgufType::Q6_K},
      {"IQ4_NL", 25, GgufType::IQ4_NL},    {"IQ4_XS", 30, GgufType::IQ4_XS},   {"IQ1_S", 24, GgufType::IQ1_S},
      {"IQ1_M", 31, GgufType::IQ1_M},      {"IQ2_XXS", 19, GgufType::IQ2_XXS}, {"IQ2_XS", 20, GgufType::IQ2_XS},
      {"IQ2_S", 28, GgufType::IQ2_XS},     {"IQ2_M", 29, GgufType::IQ2_S},     {"IQ3_XXS", 23, GgufType::IQ3_XXS},
      {"IQ3_XS", 22, GgufType::IQ3_S},     {"IQ3_S", 26, GgufType::IQ3_S},     {"IQ3_M", 27, GgufType::IQ3_S},
      {"TQ1_0", 36, GgufType::TQ1_0},      {"TQ2_0", 37, GgufType::TQ2_0},     {"MXFP4", 38, GgufType::MXFP4, true},
      {"NVFP4", 39, GgufType::NVFP4, true}};
  return mixes;
}

std::optional<TypeMix> find_mix(std::string_view name) {
  if (name == "Q3_K" || name == "Q4_K" || name == "Q5_K") return find_mix(std::string(name) + "_M");
  for (const TypeMix& mix : type_mixes())
    if (mix.name == name) return mix;
  return std::nullopt;
}

GgufType type_in_mix(const TypeMix& mix, std::string_view name, int64_t layer, int64_t layers) {
  if (mix.is_uniform) return mix.base;
  if (name == "output") return is_tiny(mix) ? GgufType::Q5_K : GgufType::Q6_K;
  if (name == "token_embd" && is_tiny(mix)) return better_than_tiny(mix);
  if (name == "token_embd" && is_ternary(mix)) return GgufType::Q4_K;
  if (name == "attn_v") return value_type(mix, layer, layers);
  if (name.starts_with("ffn_down")) return down_type(mix, layer, layers);
  if (name == "attn_output") return attention_output_type(mix);
  if (mix.name == "IQ3_XS" && is_less_in_xs(name, layer, layers)) return GgufType::IQ3_XXS;
  return mix.base;
}

// Block formats whose rows do not fit: what quantisers take instead.
GgufType that_fits(GgufType type, int64_t k) {
  while (k % info_of(type).elements != 0) {
    switch (type) {
      case GgufType::TQ1_0:
      case GgufType::TQ2_0:
      case GgufType::Q2_K:
      case GgufType::Q3_K: type = GgufType::Q4_0; break;
      case GgufType::Q4_K: type = GgufType::Q5_0; break;
      case GgufType::Q5_K: type = GgufType::Q5_1; break;
      case GgufType::Q6_K: type = GgufType::Q8_0; break;
      case GgufType::IQ1_S:
      case GgufType::IQ1_M:
      case GgufType::IQ2_XXS:
      case GgufType::IQ2_XS:
      case GgufType::IQ2_S:
      case GgufType::IQ3_XXS:
      case GgufType::IQ3_S:
      case GgufType::NVFP4:
      case GgufType::IQ4_XS: type = GgufType::IQ4_NL; break;
      default: type = GgufType::F16;
    }
  }
  return type;
}

}  // namespace smelt
