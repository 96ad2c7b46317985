// The header of GLM-4.7-Flash at full size, with one dense and one expert layer and no weights:
// what graphs and schedules are made from. The tensors lie in zero pages that nobody touches.
#pragma once

#include <doctest/doctest.h>

#include "gguf/gguf.h"
#include "model/model.h"
#include "runtime/memory.h"
#include "support/gguf_writer.h"

namespace smelt::test {

class FullSizeGlm {
 public:
  explicit FullSizeGlm(GgufType matrices) : matrices_(matrices) {
    keys();
    matrix("token_embd.weight", {kHidden, kVocabulary});
    for (int layer = 0; layer < 2; ++layer) block("blk." + std::to_string(layer) + ".", layer > 0);
    plain("output_norm.weight", {kHidden});
    matrix("output.weight", {kHidden, kVocabulary});
    std::string head = writer_.head();
    head.resize((head.size() + 31) / 32 * 32);
    auto memory = Buffer::allocate(head.size() + offset_);
    REQUIRE(memory.ok());
    memory_ = memory.take();
    std::memcpy(memory_.data(), head.data(), head.size());
    auto file = GgufFile::open_memory(memory_.bytes());
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    file_ = std::make_unique<GgufFile>(file.take());
  }

  const GgufFile& file() const { return *file_; }
  Segment block(const ModelShape& shape, int64_t layer) const {
    auto model = read_model(*file_);
    REQUIRE_MESSAGE(model.ok(), model.error().message);
    return (*model)->block(*file_, shape, layer);
  }

 private:
  static constexpr uint64_t kHidden = 2048, kVocabulary = 154880, kHeads = 20, kQueryLatent = 768, kLatent = 512,
                            kNope = 192, kRope = 64, kValue = 256, kDense = 10240, kExperts = 64, kExpert = 1536;

  void keys() {
    const std::string a = "deepseek2.";
    writer_.string("general.architecture", "deepseek2").u32(a + "block_count", 2).u32(a + "context_length", 202752);
    writer_.u32(a + "embedding_length", kHidden)
        .u32(a + "feed_forward_length", kDense)
        .u32(a + "attention.head_count", kHeads);
    writer_.f32(a + "attention.layer_norm_rms_epsilon", 1e-5f).u32(a + "attention.q_lora_rank", kQueryLatent);
    writer_.u32(a + "attention.kv_lora_rank", kLatent).u32(a + "attention.key_length_mla", kNope + kRope);
    writer_.u32(a + "attention.value_length_mla", kValue)
        .u32(a + "rope.dimension_count", kRope)
        .f32(a + "rope.freq_base", 1e6f);
    writer_.u32(a + "leading_dense_block_count", 1).u32(a + "expert_count", kExperts).u32(a + "expert_used_count", 4);
    writer_.u32(a + "expert_feed_forward_length", kExpert)
        .u32(a + "expert_shared_count", 1)
        .u32(a + "expert_gating_func", 2);
    writer_.boolean(a + "expert_weights_norm", true).f32(a + "expert_weights_scale", 1.8f);
  }

  void block(const std::string& b, bool is_moe) {
    plain(b + "attn_norm.weight", {kHidden});
    matrix(b + "attn_q_a.weight", {kHidden, kQueryLatent});
    plain(b + "attn_q_a_norm.weight", {kQueryLatent});
    matrix(b + "attn_q_b.weight", {kQueryLatent, kHeads * (kNope + kRope)});
    matrix(b + "attn_kv_a_mqa.weight", {kHidden, kLatent + kRope});
    plain(b + "attn_kv_a_norm.weight", {kLatent});
    tensor(b + "attn_k_b.weight", {kNope, kLatent, kHeads}, GgufType::Q8_0);
    tensor(b + "attn_v_b.weight", {kLatent, kValue, kHeads}, GgufType::Q8_0);
    matrix(b + "attn_output.weight", {kHeads * kValue, kHidden});
    plain(b + "ffn_norm.weight", {kHidden});
    if (!is_moe) return network(b, ".weight", {}, kDense);
    plain(b + "ffn_gate_inp.weight", {kHidden, kExperts});
    plain(b + "exp_probs_b.bias", {kExperts});
    network(b, "_exps.weight", {kExperts}, kExpert);
    network(b, "_shexp.weight", {}, kExpert);
  }

  void network(const std::string& b, const std::string& suffix, std::vector<uint64_t> experts, uint64_t width) {
    for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      const bool down = name == std::string("ffn_down");
      std::vector<uint64_t> dims{down ? width : kHidden, down ? kHidden : width};
      dims.insert(dims.end(), experts.begin(), experts.end());
      matrix(b + name + suffix, std::move(dims));
    }
  }

  void plain(const std::string& name, std::vector<uint64_t> dims) { tensor(name, std::move(dims), GgufType::F32); }
  void matrix(const std::string& name, std::vector<uint64_t> dims) { tensor(name, std::move(dims), matrices_); }

  void tensor(const std::string& name, std::vector<uint64_t> dims, GgufType type) {
    uint64_t bytes = info_of(type).bytes;
    for (size_t i = 0; i < dims.size(); ++i) bytes *= i == 0 ? dims[0] / info_of(type).elements : dims[i];
    writer_.add_tensor({.name = name,
                        .dims = std::move(dims),
                        .type = static_cast<uint32_t>(type),
                        .data = {},
                        .offset = offset_,
                        .rank = {}});
    offset_ += (bytes + 31) / 32 * 32;
  }

  GgufType matrices_;
  GgufWriter writer_;
  uint64_t offset_ = 0;
  Buffer memory_;
  std::unique_ptr<GgufFile> file_;
};

}  // namespace smelt::test
