// What SmallTransformer makes of every architecture that model/transformer.h has, and random changes of its keys.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "model/small_transformer.h"

namespace smelt::test {

// Those that are published as folders, too (safetensors/).
inline const std::vector<Traits>& published_models() {
  static const std::vector<Traits> all = {
      {},
      {.architecture = "qwen2", .has_bias = true},
      {.architecture = "qwen3", .has_norms = true},
      {.architecture = "phi3", .has_divisors = true},
      {.architecture = "glm4", .has_bias = true, .rotated = kWidth / 2},
      {.architecture = "granite"},
      {.architecture = "granite", .rotates = false},
      {.architecture = "granitemoe", .has_experts = true},
      {.architecture = "olmo2", .has_norms = true},
      {.architecture = "olmo2", .has_norms = true, .has_local_layers = true},
      {.architecture = "mistral3"},
      {.architecture = "qwen3next",
       .has_norms = true,
       .rotated = kWidth / 4,
       .network_norm = "post_attention_norm",
       .has_experts = true,
       .has_joint_input = true},
      kSmallQwen35,
      {.architecture = "qwen35moe",
       .has_norms = true,
       .rotated = kWidth / 4,
       .network_norm = "post_attention_norm",
       .has_experts = true},
  };
  return all;
}

inline const std::vector<Traits>& small_models() {
  static const std::vector<Traits> all = [] {
    std::vector<Traits> models = {
        {.has_bias = true, .has_divisors = true},
        {.rotated = kWidth / 4},
        {.architecture = "glm4moe", .has_bias = true, .rotated = kWidth / 2, .network_norm = "post_attention_norm"},
        {.architecture = "gemma3", .has_norms = true},
        {.architecture = "glm4moe", .has_norms = true, .rotated = kWidth / 4, .network_norm = "post_attention_norm"},
        {.has_experts = true},  // Mixtral
        {.architecture = "phi3"},
        {.architecture = "qwen2", .has_bias = true, .rotated = 12},  // a part that does not divide the head
        kSmallGptOss,
        kSmallQwen3Next,
        {.architecture = "qwen3moe", .has_norms = true, .has_experts = true},
        {.architecture = "glm4moe",
         .has_norms = true,
         .rotated = kWidth / 4,
         .network_norm = "post_attention_norm",
         .has_experts = true},
    };
    models.insert(models.begin(), published_models().begin(), published_models().end());
    return models;
  }();
  return all;
}

// Whole numbers at and behind the ends of what keys hold.
inline constexpr std::array<uint64_t, 20> kOddNumbers = {0,
                                                         1,
                                                         2,
                                                         3,
                                                         5,
                                                         7,
                                                         63,
                                                         255,
                                                         (1 << 14) + 1,
                                                         (1 << 16) + 2,
                                                         1 << 20,
                                                         (1 << 28) + 1,
                                                         INT32_MAX,
                                                         uint64_t{1} << 31,
                                                         UINT32_MAX,
                                                         uint64_t{1} << 32,
                                                         uint64_t{1} << 53,
                                                         INT64_MAX,
                                                         uint64_t{1} << 63,
                                                         UINT64_MAX};
inline constexpr std::array<double, 14> kOddReals = {0,     -0.0,
                                                     1e-45, -1,
                                                     0.5,   1,
                                                     2,     1e6,
                                                     -1e30, 1e30,
                                                     3e38,  -std::numeric_limits<double>::infinity(),
                                                     1e300, std::numeric_limits<double>::quiet_NaN()};

// Another value for a key of the writer, of another kind perhaps; or none. `choice`, `detail`: any numbers.
inline void change_key(GgufWriter& writer, size_t which, uint32_t choice, uint32_t detail) {
  if (writer.entries.empty()) return;
  const std::string key = writer.entries[which % writer.entries.size()].key;
  const uint64_t whole = kOddNumbers[detail % kOddNumbers.size()];
  const double real = kOddReals[detail % kOddReals.size()];
  switch (choice % 9) {
    case 0: writer.remove(key); break;
    case 1: writer.u32(key, static_cast<uint32_t>(whole)); break;
    case 2: writer.u64(key, whole); break;
    case 3: writer.i64(key, static_cast<int64_t>(whole)); break;
    case 4: writer.f32(key, static_cast<float>(real)); break;
    case 5: writer.f64(key, real); break;
    case 6: writer.boolean(key, detail % 2 != 0); break;
    case 7: writer.string(key, detail % 2 ? "yarn" : "\x1b[31m\n"); break;
    case 8: writer.u32s(key, std::vector<uint32_t>(detail % 4, static_cast<uint32_t>(whole))); break;
  }
}

}  // namespace smelt::test
