// Which combinations of weights' formats, kind of activations and type of the cache a model is tested with. All of them
// take an hour, so each model takes its turn: together the models have every format, each type of the cache with both
// kinds of activations, and experts with last matrices of each plain format.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "gguf/types.h"

namespace smelt::test {

// Of weights, those of one value among them.
inline const std::vector<GgufType>& all_formats() {
  static const std::vector<GgufType> all = [] {
    std::vector<GgufType> types;
    for (uint32_t id = 0; id < 256; ++id)
      if (const GgufTypeInfo* info = find_type(id); info && info->supported) types.push_back(info->type);
    return types;
  }();
  return all;
}

inline constexpr std::array kPlainFormats = {GgufType::F32, GgufType::F16, GgufType::BF16};
inline constexpr std::array kCacheTypes = {DType::U8, DType::F16, DType::F32};

// Formats of matrices: of networks, of the last ones of experts, and of all others.
struct Formats {
  GgufType others = GgufType::F32, network = GgufType::F32, down_of_experts = GgufType::F32;

  static Formats all(GgufType type) { return {type, type, type}; }
};

inline std::string to_string(const Formats& f) {
  std::string text(name_of(f.others));
  if (f.network != f.others) text += ", networks " + std::string(name_of(f.network));
  if (f.down_of_experts != f.network) text += ", ffn_down_exps " + std::string(name_of(f.down_of_experts));
  return text;
}

// What is computed with them.
struct Arithmetic {
  bool in_bytes = false;  // activations
  DType cache = DType::F32;

  bool is_exact() const { return !in_bytes && cache == DType::F32; }
};

inline std::string to_string(const Arithmetic& a) {
  const char* const cache = a.cache == DType::U8 ? "bytes" : a.cache == DType::F16 ? "f16" : "f32";
  return std::string(a.in_bytes ? "activations q8" : "activations f32") + ", cache " + cache;
}

inline std::vector<Arithmetic> all_arithmetics() {
  std::vector<Arithmetic> list;
  for (bool in_bytes : {true, false})
    for (DType cache : kCacheTypes) list.push_back({in_bytes, cache});
  return list;
}

// Those of the model of this number: the next two formats, and the next arithmetic.
inline Formats formats_in_turn(size_t model, bool has_plain_experts) {
  const std::vector<GgufType>& all = all_formats();
  const GgufType others = all[2 * model % all.size()], network = all[(2 * model + 1) % all.size()];
  return {others, network, has_plain_experts ? kPlainFormats[model % kPlainFormats.size()] : network};
}
inline Arithmetic arithmetic_in_turn(size_t model) { return all_arithmetics()[model % all_arithmetics().size()]; }

}  // namespace smelt::test
