#include "app/synthetic_file.h"

#include <cstring>

#include "gguf/gguf.h"

namespace smelt {
namespace {

constexpr uint32_t kVersion = 3;

uint64_t aligned(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string raw(const std::string& text) { return raw<uint64_t>(text.size()) + text; }

class Metadata {
 public:
  void number(const std::string& key, int64_t value) {
    add(key, GgufKind::U32, raw(static_cast<uint32_t>(value)));
  }
  void real(const std::string& key, double value) {
    add(key, GgufKind::F32, raw(static_cast<float>(value)));
  }
  void flag(const std::string& key, bool value) {
    add(key, GgufKind::Bool, raw(static_cast<uint8_t>(value)));
  }
  void text(const std::string& key, const std::string& value) {
    add(key, GgufKind::String, raw(value));
  }
  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void add(const std::string& key, GgufKind kind, const std::string& value) {
    bytes_ += raw(key) + raw(static_cast<uint32_t>(kind)) + value;
    ++count_;
  }
  std::string bytes_;
  uint64_t count_ = 0;
};

void add_attention(Metadata& out, const std::string& a, const Hyperparameters& m) {
  out.number(a + "attention.head_count", m.heads);
  out.number(a + "attention.head_count_kv", 1);
  out.real(a + "attention.layer_norm_rms_epsilon", m.epsilon);
  if (m.q_lora) out.number(a + "attention.q_lora_rank", m.q_lora);
  out.number(a + "attention.kv_lora_rank", m.kv_lora);
  out.number(a + "attention.key_length", m.cache_width());
  out.number(a + "attention.value_length", m.kv_lora);
  out.number(a + "attention.key_length_mla", m.nope + m.rope);
  out.number(a + "attention.value_length_mla", m.v_head);
  out.number(a + "rope.dimension_count", m.rope);
  out.real(a + "rope.freq_base", m.rotary.base);
  if (m.rotary.factor <= 1) return;
  out.text(a + "rope.scaling.type", "yarn");
  out.real(a + "rope.scaling.factor", m.rotary.factor);
  out.number(a + "rope.scaling.original_context_length", m.rotary.original_context);
  out.real(a + "rope.scaling.yarn_log_multiplier", m.rotary.log_multiplier);
}

void add_networks(Metadata& out, const std::string& a, const Hyperparameters& m) {
  out.number(a + "leading_dense_block_count", m.dense_layers);
  out.number(a + "feed_forward_length", m.dense_width);
  out.number(a + "expert_count", m.experts);
  out.number(a + "expert_used_count", m.experts_used);
  out.number(a + "expert_feed_forward_length", m.expert_width);
  out.number(a + "expert_shared_count", m.shared_width / m.expert_width);
  out.number(a + "expert_gating_func", m.routing == Routing::Sigmoid ? 2 : 1);
  out.flag(a + "expert_weights_norm", m.normalise_weights);
  out.real(a + "expert_weights_scale", m.weights_scale);
}

Metadata metadata_of(const SyntheticSpec& spec, uint64_t alignment) {
  const Hyperparameters& m = spec.shape;
  const std::string a = m.architecture + ".";
  Metadata out;
  out.text("general.architecture", m.architecture);
  out.text("general.name", spec.name + " (random weights)");
  out.number("general.alignment", static_cast<int64_t>(alignment));
  out.number(a + "block_count", m.layers);
  out.number(a + "context_length", m.context);
  out.number(a + "embedding_length", m.hidden);
  out.number(a + "vocab_size", m.vocabulary);
  add_attention(out, a, m);
  add_networks(out, a, m);
  return out;
}

}  // namespace

SyntheticFile synthetic_file(const SyntheticSpec& spec, const std::vector<SyntheticTensor>& tensors,
                             uint64_t alignment) {
  const Metadata metadata = metadata_of(spec, alignment);
  SyntheticFile file;
  file.head = "GGUF" + raw(kVersion) + raw<uint64_t>(tensors.size()) + raw(metadata.count()) +
              metadata.bytes();
  for (const SyntheticTensor& t : tensors) {
    file.offsets.push_back(file.data_bytes);
    file.head += raw(t.name) + raw(static_cast<uint32_t>(t.dims.size()));
    for (uint64_t dim : t.dims) file.head += raw(dim);
    file.head += raw(static_cast<uint32_t>(t.type)) + raw(file.data_bytes);
    file.data_bytes = aligned(file.data_bytes + t.bytes, alignment);
  }
  file.head.resize(aligned(file.head.size(), alignment));
  return file;
}

}  // namespace smelt
