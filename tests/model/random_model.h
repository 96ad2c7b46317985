// A very small model of random weights, of any variant of the architecture: what the tests of
// graphs run on.
#pragma once

#include <cmath>
#include <random>
#include <string>

#include "gguf/gguf.h"
#include "support/gguf_writer.h"

namespace smelt::test {

struct Variant {
  int layers = 2, dense_layers = 1;
  int q_lora = 32;  // 0: none
  bool sigmoid = true, bias = true, normalise = true, yarn = false, fused_kv_b = false, tied = false;
  int shared_experts = 1;
  int groups = 1, groups_used = 1;  // of experts
  GgufType type = GgufType::Q8_0;   // of matrices: Q8_0, F16, BF16 or F32
  unsigned seed = 1;
  std::string architecture = "deepseek2";  // or glm4moelite: the widths of a head and of the cache's row change places
  uint64_t hidden = 64, heads = 3, latent = 64, nope = 32, rope = 16, value = 32;
  uint64_t dense = 96, experts = 6, used = 3, expert = 32;
};

class RandomModel {
 public:
  static constexpr int kVocabulary = 96, kContext = 512;

  explicit RandomModel(const Variant& v) : v_(v), random_(v.seed) {
    keys();
    matrix("token_embd.weight", {v_.hidden, kVocabulary}, 1);
    for (int layer = 0; layer < v.layers; ++layer) block("blk." + std::to_string(layer) + ".", layer >= v.dense_layers);
    norm("output_norm.weight", v_.hidden);
    if (!v.tied) matrix("output.weight", {v_.hidden, kVocabulary}, 2);
  }

  const GgufWriter& writer() const { return w_; }

 private:
  void keys() {
    const std::string a = v_.architecture + ".";
    w_.string("general.architecture", v_.architecture);
    w_.u32(a + "block_count", v_.layers).u32(a + "context_length", kContext).u32(a + "embedding_length", v_.hidden);
    w_.u32(a + "feed_forward_length", v_.dense).u32(a + "attention.head_count", v_.heads);
    w_.f32(a + "attention.layer_norm_rms_epsilon", 1e-5f).u32(a + "attention.kv_lora_rank", v_.latent);
    if (v_.q_lora) w_.u32(a + "attention.q_lora_rank", v_.q_lora);
    const char* const kinds[] = {"attention.key_length", "attention.value_length", "attention.key_length_mla",
                                 "attention.value_length_mla"};
    const uint64_t widths[] = {v_.latent + v_.rope, v_.latent, v_.nope + v_.rope, v_.value};
    const bool swaps = v_.architecture == "glm4moelite";
    for (int i = swaps ? 0 : 2; i < 4; ++i) w_.u32(a + kinds[i], widths[swaps ? (i + 2) % 4 : i]);
    w_.u32(a + "rope.dimension_count", v_.rope).f32(a + "rope.freq_base", 10000);
    if (v_.yarn) {
      w_.string(a + "rope.scaling.type", "yarn").f32(a + "rope.scaling.factor", 8);
      w_.u32(a + "rope.scaling.original_context_length", 64).f32(a + "rope.scaling.yarn_log_multiplier", 0.0707f);
    }
    w_.u32(a + "leading_dense_block_count", v_.dense_layers).u32(a + "expert_count", v_.experts);
    w_.u32(a + "expert_used_count", v_.used).u32(a + "expert_feed_forward_length", v_.expert);
    w_.u32(a + "expert_shared_count", v_.shared_experts).u32(a + "expert_gating_func", v_.sigmoid ? 2 : 1);
    if (v_.groups > 1) w_.u32(a + "expert_group_count", v_.groups).u32(a + "expert_group_used_count", v_.groups_used);
    w_.boolean(a + "expert_weights_norm", v_.normalise).f32(a + "expert_weights_scale", 1.8f);
  }

  void block(const std::string& b, bool is_moe) {
    const uint64_t queries = v_.heads * (v_.nope + v_.rope);
    norm(b + "attn_norm.weight", v_.hidden);
    if (v_.q_lora) {
      matrix(b + "attn_q_a.weight", {v_.hidden, uint64_t(v_.q_lora)});
      norm(b + "attn_q_a_norm.weight", v_.q_lora);
      matrix(b + "attn_q_b.weight", {uint64_t(v_.q_lora), queries}, 1.5);
    } else {
      matrix(b + "attn_q.weight", {v_.hidden, queries}, 1.5);
    }
    matrix(b + "attn_kv_a_mqa.weight", {v_.hidden, v_.latent + v_.rope}, 1.5);
    norm(b + "attn_kv_a_norm.weight", v_.latent);
    if (v_.fused_kv_b) {
      matrix(b + "attn_kv_b.weight", {v_.latent, v_.heads * (v_.nope + v_.value)});
    } else {
      matrix(b + "attn_k_b.weight", {v_.nope, v_.latent, v_.heads});
      matrix(b + "attn_v_b.weight", {v_.latent, v_.value, v_.heads});
    }
    matrix(b + "attn_output.weight", {v_.heads * v_.value, v_.hidden});
    norm(b + "ffn_norm.weight", v_.hidden);
    if (!is_moe) return network(b, ".weight", v_.dense, 0);
    plain(b + "ffn_gate_inp.weight", {v_.hidden, v_.experts}, 0, 0.3);
    if (v_.bias) plain(b + "exp_probs_b.bias", {v_.experts}, 0, 0.1);
    network(b, "_exps.weight", v_.expert, v_.experts);
    if (v_.shared_experts) network(b, "_shexp.weight", v_.expert * v_.shared_experts, 0);
  }

  void network(const std::string& b, const std::string& suffix, uint64_t width, uint64_t experts) {
    auto dims = [&](uint64_t in, uint64_t out) {
      return experts ? std::vector<uint64_t>{in, out, experts} : std::vector<uint64_t>{in, out};
    };
    matrix(b + "ffn_gate" + suffix, dims(v_.hidden, width));
    matrix(b + "ffn_up" + suffix, dims(v_.hidden, width));
    matrix(b + "ffn_down" + suffix, dims(width, v_.hidden));
  }

  void norm(const std::string& name, uint64_t n) { plain(name, {n}, 1, 0.1); }

  void plain(const std::string& name, std::vector<uint64_t> dims, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    std::string data;
    for (uint64_t i = count(dims); i > 0; --i) data += GgufWriter::le(float(normal(random_)));
    w_.tensor(name, std::move(dims), GgufType::F32, std::move(data));
  }

  // Values of about gain / sqrt(in). Halves are cut from floats, so that this needs no rounding
  // code.
  void matrix(const std::string& name, std::vector<uint64_t> dims, double gain = 1) {
    const double deviation = gain / std::sqrt(double(dims[0]));
    if (v_.type == GgufType::F32) return plain(name, std::move(dims), 0, deviation);
    std::string data;
    std::normal_distribution<double> normal(0, deviation);
    if (v_.type == GgufType::Q8_0) {
      for (uint64_t block = count(dims) / 32; block > 0; --block) {
        data += GgufWriter::le(half(deviation / 64));
        for (int i = 0; i < 32; ++i)
          data += char(std::clamp(std::lround(normal(random_) / deviation * 64), -127l, 127l));
      }
    } else {
      for (uint64_t i = count(dims); i > 0; --i) {
        const float x = float(normal(random_));
        data += GgufWriter::le(v_.type == GgufType::F16 ? half(x) : uint16_t(std::bit_cast<uint32_t>(x) >> 16));
      }
    }
    w_.tensor(name, std::move(dims), v_.type, std::move(data));
  }

  static uint64_t count(const std::vector<uint64_t>& dims) {
    uint64_t n = 1;
    for (uint64_t d : dims) n *= d;
    return n;
  }

  // The half at or below |x|, for x of ordinary size; 0 below 2^-14.
  static uint16_t half(double x) {
    const uint32_t bits = std::bit_cast<uint32_t>(float(x));
    const int exponent = int(bits >> 23 & 255) - 112;
    return exponent <= 0 ? 0 : uint16_t(bits >> 16 & 0x8000) | uint16_t(exponent << 10) | uint16_t(bits >> 13 & 1023);
  }

  Variant v_;
  std::mt19937 random_;
  GgufWriter w_;
};

}  // namespace smelt::test
