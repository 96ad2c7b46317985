#include "gguf/footprint.h"

#include <algorithm>
#include <charconv>

#include "base/checked.h"
#include "gguf/limits.h"

namespace smelt {
namespace {

// Generous for models.
constexpr GgufRange kWidth = {0, 1 << 20};
constexpr GgufRange kHeads = {0, 1 << 14};
constexpr GgufRange kExperts = {0, 1 << 16};
constexpr GgufRange kLayers = {0, gguf_limits::kLayers};

constexpr uint64_t kChunk = 256;  // tokens of a prefill chunk, for the rough working memory

// Reads ARCH.key; some models give one value a layer, of which the largest counts.
class Keys {
 public:
  explicit Keys(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  Result<uint64_t> number(std::string_view key, GgufRange range) const {
    const std::string name = prefix_ + std::string(key);
    const GgufValue* value = file_.value(name);
    if (!value || !value->is_array) return file_.u64_or(name, 0, range);
    SMELT_TRY(list, file_.integers(name));
    int64_t most = 0;
    for (int64_t v : list) {
      if (v < 0 || static_cast<uint64_t>(v) > range.max) {
        return gguf_error(name, "value " + std::to_string(v) + " is not in the range 0 to " +
                                    std::to_string(range.max) + "; convert the model again");
      }
      most = std::max(most, v);
    }
    return static_cast<uint64_t>(most);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// 3 for "blk.3.attn_norm.weight".
std::optional<uint64_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  uint64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

// Values that a token leaves in one layer's cache. MLA keeps the latent and the rotated part of the
// key, and reads the values out of the same row; other attention keeps keys and values of each
// head.
Result<uint64_t> cache_values_per_layer(const Keys& keys) {
  SMELT_TRY(latent, keys.number("attention.kv_lora_rank", kWidth));
  SMELT_TRY(rope, keys.number("rope.dimension_count", kWidth));
  if (latent > 0) return latent + rope;
  SMELT_TRY(heads, keys.number("attention.head_count", kHeads));
  SMELT_TRY(hidden, keys.number("embedding_length", kWidth));
  SMELT_TRY(kv_heads, keys.number("attention.head_count_kv", kHeads));
  SMELT_TRY(key_length, keys.number("attention.key_length", kWidth));
  SMELT_TRY(value_length, keys.number("attention.value_length", kWidth));
  const uint64_t head_width = heads ? hidden / heads : 0;
  return (kv_heads ? kv_heads : heads) *
         ((key_length ? key_length : head_width) + (value_length ? value_length : head_width));
}

Result<uint64_t> work_bytes(const Keys& keys, const Footprint& model, uint64_t vocabulary) {
  SMELT_TRY(hidden, keys.number("embedding_length", kWidth));
  SMELT_TRY(dense, keys.number("feed_forward_length", kWidth));
  SMELT_TRY(expert, keys.number("expert_feed_forward_length", kWidth));
  SMELT_TRY(heads, keys.number("attention.head_count", kHeads));
  SMELT_TRY(row, cache_values_per_layer(keys));
  const Checked attention = Checked(heads) * row * 2;  // absorbed queries and their results
  const Checked inner = Checked(2) * std::max(dense, expert * model.experts_used);
  const Checked chunk = (Checked(4) * hidden + attention + inner) * kChunk;
  return ((chunk + vocabulary) * sizeof(float)).get().value_or(0);
}

}  // namespace

uint64_t Footprint::cache_bytes(uint64_t context, uint64_t value_bytes) const {
  return (Checked(context) * cache_values * value_bytes).get().value_or(UINT64_MAX);
}

uint64_t bytes_read_per_token(const GgufFile& file, const GgufTensor& tensor, const Footprint& model) {
  if (const auto layer = layer_of(tensor.name); layer && model.layers > 0 && *layer >= model.layers) return 0;
  if (tensor.name == "token_embd.weight") {
    const bool tied = !file.find("output.weight");  // then all rows are read for the logits
    return tied ? tensor.bytes : tensor.row_bytes();
  }
  if (tensor.name.find("_exps.") != std::string_view::npos && model.experts > 0 && tensor.dims[2] == model.experts) {
    return tensor.bytes / model.experts * std::min(model.experts_used, model.experts);
  }
  return tensor.bytes;
}

Result<Footprint> footprint(const GgufFile& file) {
  Footprint model;
  SMELT_TRY(architecture, file.string_or("general.architecture", ""));
  model.architecture = architecture;
  const Keys keys(file, model.architecture + ".");
  SMELT_TRY(layers, keys.number("block_count", kLayers));
  SMELT_TRY(predicted, keys.number("nextn_predict_layers", kLayers));
  SMELT_TRY(experts, keys.number("expert_count", kExperts));
  SMELT_TRY(used, keys.number("expert_used_count", kExperts));
  SMELT_TRY(row, cache_values_per_layer(keys));
  model.layers = layers - std::min(layers, predicted);
  model.experts = experts;
  model.experts_used = used;
  model.cache_values = row * model.layers;
  for (const GgufTensor& tensor : file.tensors()) {  // no sum wraps: tensors of a file do not overlap
    model.weight_bytes += tensor.bytes;
    model.token_bytes += bytes_read_per_token(file, tensor, model);
  }
  const GgufTensor* embedding = file.find("token_embd.weight");
  SMELT_TRY(work, work_bytes(keys, model, embedding ? embedding->rows() : 0));
  model.work_bytes = work;
  return model;
}

}  // namespace smelt
