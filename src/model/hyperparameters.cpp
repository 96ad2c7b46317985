#include "model/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/printable.h"
#include "gguf/limits.h"

namespace smelt {
namespace {

// Architecture strings that hold this model; the second is what ollama writes for GLM-4.7-Flash.
constexpr std::string_view kArchitectures[] = {"deepseek2", "glm4moelite"};

constexpr int64_t kWidth = 1 << 20;    // of any axis that a token's values have
constexpr int64_t kContext = 1 << 28;  // positions

Error model_error(const std::string& where, const std::string& what) {
  return {"[model] " + where + ": " + what};
}

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", value);
  return buffer;
}

std::string quoted(std::string_view text) { return "\"" + printable(text, 40) + "\""; }

// Reads keys one after another and remembers the first error, so that a list of keys reads like
// one.
class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture) : file_(file), prefix_(architecture + ".") {}

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return file_.has(name(key)); }

  int64_t integer(std::string_view key, int64_t min, int64_t max) {
    return keep(file_.u64(name(key), range(min, max)), min);
  }
  int64_t integer_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) {
    return keep(file_.u64_or(name(key), fallback, range(min, max)), fallback);
  }
  double real(std::string_view key, double min, double max) {
    return real_in(file_.f64(name(key)), key, min, max);
  }
  double real_or(std::string_view key, double fallback, double min, double max) {
    return real_in(file_.f64_or(name(key), fallback), key, min, max);
  }
  bool boolean_or(std::string_view key, bool fallback) {
    return keep(file_.boolean_or(name(key), fallback), fallback);
  }
  std::string_view string_or(std::string_view key, std::string_view fallback) {
    return keep(file_.string_or(name(key), fallback), fallback);
  }

  void refuse(std::string_view key, const std::string& what) {
    keep_error(model_error(name(key), what));
  }
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  static GgufRange range(int64_t min, int64_t max) {
    return {static_cast<uint64_t>(min), static_cast<uint64_t>(max)};
  }
  void keep_error(Error error) {
    if (!error_) error_ = std::move(error);
  }
  template <class T, class U>
  U keep(Result<T> result, U fallback) {
    if (result) return static_cast<U>(*result);
    keep_error(result.error());
    return fallback;
  }
  double real_in(Result<double> result, std::string_view key, double min, double max) {
    const double value = keep(std::move(result), min);
    if (!(value >= min && value <= max))
      refuse(key, text(value) + " is outside " + text(min) + " .. " + text(max));
    return std::clamp(value, min, max);
  }

  const GgufFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

// --- the numbers

void read_attention(Keys& keys, Hyperparameters& m) {
  m.heads = keys.integer("attention.head_count", 1, 1 << 14);
  const int64_t kv_heads = keys.integer_or("attention.head_count_kv", 1, 1, 1 << 14);
  if (kv_heads != 1 && kv_heads != m.heads)
    keys.refuse("attention.head_count_kv", std::to_string(kv_heads) +
                                               " is neither 1 nor the number of heads, " +
                                               std::to_string(m.heads));
  m.q_lora = keys.integer_or("attention.q_lora_rank", 0, 0, kWidth);
  m.kv_lora = keys.integer("attention.kv_lora_rank", 1, kWidth);
  m.rope = keys.integer("rope.dimension_count", 2, 1 << 16);
  if (m.rope % 2)
    keys.refuse("rope.dimension_count",
                std::to_string(m.rope) + " is odd; rotation works on pairs");

  // Widths of a head. key_length is the cache row's where the _mla keys are present, except in
  // ollama's files, which swap the two; older files have no _mla keys.
  std::string_view key =
      keys.has("attention.key_length_mla") ? "attention.key_length_mla" : "attention.key_length";
  std::string_view value = keys.has("attention.value_length_mla") ? "attention.value_length_mla"
                                                                  : "attention.value_length";
  if (keys.has("attention.key_length_mla") && m.architecture != kArchitectures[0])
    if (keys.integer(key, 1, kWidth) == m.cache_width())
      key = "attention.key_length", value = "attention.value_length";
  const int64_t head_width = keys.integer(key, 1, kWidth);
  m.v_head = keys.integer(value, 1, kWidth);
  m.nope = head_width - m.rope;
  if (m.nope < 1)
    keys.refuse(key, std::to_string(head_width) + " leaves nothing beside " +
                         keys.name("rope.dimension_count") + " " + std::to_string(m.rope));
}

void read_rotary(Keys& keys, Hyperparameters& m) {
  RopeParameters& r = m.rotary;
  r.base = keys.real_or("rope.freq_base", 10000, 1.001, 1e15);
  const std::string_view scaling = keys.string_or("rope.scaling.type", "none");
  if (scaling == "yarn") {
    r.factor = keys.real("rope.scaling.factor", 1, 1e6);
    r.original_context =
        keys.integer_or("rope.scaling.original_context_length", m.context, 1, kContext);
    r.beta_fast = keys.real_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6);
    r.beta_slow = keys.real_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6);
    r.log_multiplier = keys.real_or("rope.scaling.yarn_log_multiplier", 0, 0, 10);
  } else if (scaling != "none") {
    keys.refuse("rope.scaling.type", quoted(scaling) + " is not supported; none and yarn are");
  }
  const double m_scale = 1 + r.log_multiplier * std::log(r.factor);
  m.softmax_scale = m_scale * m_scale / std::sqrt(static_cast<double>(m.nope + m.rope));
}

// Files of the first days of GLM-4.7-Flash lack the key, and softmax was never right for them: the
// selection bias or the shapes of that model tell.
Routing default_routing(const Hyperparameters& m) {
  const bool glm =
      (m.layers == 47 || m.layers == 48) && m.hidden == 2048 && m.q_lora == 768 && m.kv_lora == 512;
  return glm || m.selection_bias ? Routing::Sigmoid : Routing::Softmax;
}

void read_routing(Keys& keys, Hyperparameters& m) {
  m.routing = default_routing(m);
  if (keys.has("expert_gating_func")) {
    const int64_t function = keys.integer("expert_gating_func", 0, 1 << 16);
    if (function != 1 && function != 2)
      keys.refuse("expert_gating_func",
                  std::to_string(function) + " is not supported; 1 (softmax) and 2 (sigmoid) are");
    m.routing = function == 2 ? Routing::Sigmoid : Routing::Softmax;
  }
  for (std::string_view key : {"expert_group_count", "expert_group_used_count"})
    if (const int64_t groups = keys.integer_or(key, 1, 0, 1 << 16); groups > 1)
      keys.refuse(key,
                  std::to_string(groups) + " groups are not supported; models with one group are");
  m.normalise_weights = keys.boolean_or("expert_weights_norm", m.routing == Routing::Sigmoid);
  m.weights_scale = keys.real_or("expert_weights_scale", 1, 1e-6, 1e6);
}

void read_experts(Keys& keys, const GgufFile& file, Hyperparameters& m) {
  m.experts = keys.integer_or("expert_count", 0, 0, 1 << 14);
  m.dense_layers =
      keys.integer_or("leading_dense_block_count", m.experts ? 0 : m.layers, 0, m.layers);
  if (m.dense_layers > 0) m.dense_width = keys.integer("feed_forward_length", 1, kWidth);
  if (m.dense_layers == m.layers) return;
  if (m.experts == 0) {
    keys.refuse("expert_count", "0 or missing, but layers from " + std::to_string(m.dense_layers) +
                                    " on have experts");
    return;
  }
  m.experts_used = keys.integer("expert_used_count", 1, m.experts);
  m.expert_width = keys.integer("expert_feed_forward_length", 1, kWidth);
  m.shared_width = keys.integer_or("expert_shared_count", 0, 0, 1 << 10) * m.expert_width;
  m.selection_bias = file.find(layer_prefix(m.dense_layers) + "exp_probs_b.bias") != nullptr;
  read_routing(keys, m);
}

// --- numbers against tensors

std::string shape_text(const GgufTensor& t) {
  std::string s = "{" + std::to_string(t.dims[0]);
  for (int i = 1; i < std::max(t.rank, 1); ++i) s += ", " + std::to_string(t.dims[i]);
  return s + "}";
}

std::string shape_text(const TensorShape& t) {
  std::string s = "{" + std::to_string(t.k);
  for (size_t i = t.rows.size(); i-- > 0;) s += ", " + std::to_string(t.rows[i]);
  return s + "}";
}

bool has_shape(const GgufTensor& t, const TensorShape& wanted) {
  if (t.dims[0] != static_cast<uint64_t>(wanted.k)) return false;
  uint64_t product = 1;
  bool same = true;
  for (size_t i = 0; i < 3; ++i) {
    const uint64_t rows = i < wanted.rows.size() ? wanted.rows[wanted.rows.size() - 1 - i] : 1;
    product *= rows;
    same = same && t.dims[i + 1] == rows;
  }
  // Some files write the per-head matrices as one; the bytes are the same.
  const bool per_head = wanted.name == "attn_k_b.weight" || wanted.name == "attn_v_b.weight";
  return same || (per_head && t.rank == 2 && t.dims[1] == product);
}

Status check_tensors(const GgufFile& file, const std::string& prefix,
                     const std::vector<TensorShape>& tensors) {
  for (const TensorShape& wanted : tensors) {
    SMELT_TRY(tensor, file.require(prefix + wanted.name));
    if (!has_shape(*tensor, wanted))
      return model_error(prefix + wanted.name,
                         "shape " + shape_text(*tensor) + " where the hyper-parameters ask for " +
                             shape_text(wanted) + "; the file is damaged or of another model");
  }
  return {};
}

Status read_vocabulary(Keys& keys, const GgufFile& file, Hyperparameters& m) {
  SMELT_TRY(embedding, file.require("token_embd.weight"));
  m.vocabulary = static_cast<int64_t>(std::min<uint64_t>(embedding->dims[1], INT64_MAX));
  if (m.vocabulary > (1 << 24))
    return model_error("token_embd.weight",
                       std::to_string(m.vocabulary) + " tokens; at most 16777216 are supported");
  const int64_t key = keys.integer_or("vocab_size", m.vocabulary, 1, 1 << 24);
  SMELT_CHECK(keys.status());
  if (key != m.vocabulary)
    return model_error(keys.name("vocab_size"), std::to_string(key) +
                                                    " where token_embd.weight has " +
                                                    std::to_string(m.vocabulary) + " rows");
  const GgufValue* tokens = file.value("tokenizer.ggml.tokens");
  if (tokens && tokens->count != static_cast<uint64_t>(m.vocabulary))
    return model_error("tokenizer.ggml.tokens", std::to_string(tokens->count) +
                                                    " tokens where token_embd.weight has " +
                                                    std::to_string(m.vocabulary) + " rows");
  return {};
}

Result<std::string> supported_architecture(const GgufFile& file) {
  SMELT_TRY(name, file.string("general.architecture"));
  for (std::string_view known : kArchitectures)
    if (name == known) return std::string(name);
  return model_error("general.architecture",
                     quoted(name) + " is not supported; smelt runs deepseek2 (GLM-4.7-Flash, " +
                         "DeepSeek-V2-Lite) and glm4moelite");
}

}  // namespace

std::string layer_prefix(int64_t layer) { return "blk." + std::to_string(layer) + "."; }

TensorShape embedding_tensor(const Hyperparameters& m) {
  return {"token_embd.weight", {m.vocabulary}, m.hidden, 1.0 / double(m.vocabulary)};
}

std::vector<TensorShape> head_tensors(const Hyperparameters& m) {
  return {{"output_norm.weight", {}, m.hidden},
          {m.tied_output ? "token_embd.weight" : "output.weight", {m.vocabulary}, m.hidden}};
}

std::vector<TensorShape> layer_tensors(const Hyperparameters& m, int64_t layer) {
  std::vector<TensorShape> list;
  auto add = [&](const char* name, std::vector<int64_t> rows, int64_t k, double share_of_read = 1) {
    list.push_back({name, std::move(rows), k, share_of_read});
  };
  const int64_t queries = m.heads * (m.nope + m.rope);
  add("attn_norm.weight", {}, m.hidden);
  if (m.q_lora) {
    add("attn_q_a.weight", {m.q_lora}, m.hidden);
    add("attn_q_a_norm.weight", {}, m.q_lora);
    add("attn_q_b.weight", {queries}, m.q_lora);
  } else {
    add("attn_q.weight", {queries}, m.hidden);
  }
  add("attn_kv_a_mqa.weight", {m.cache_width()}, m.hidden);
  add("attn_kv_a_norm.weight", {}, m.kv_lora);
  if (m.fused_kv_b) {
    add("attn_kv_b.weight", {m.heads * (m.nope + m.v_head)}, m.kv_lora);
  } else {
    add("attn_k_b.weight", {m.heads, m.kv_lora}, m.nope);
    add("attn_v_b.weight", {m.heads, m.v_head}, m.kv_lora);
  }
  add("attn_output.weight", {m.hidden}, m.heads * m.v_head);
  add("ffn_norm.weight", {}, m.hidden);
  if (!m.is_moe(layer)) {
    add("ffn_gate.weight", {m.dense_width}, m.hidden);
    add("ffn_up.weight", {m.dense_width}, m.hidden);
    add("ffn_down.weight", {m.hidden}, m.dense_width);
    return list;
  }
  const double used = double(m.experts_used) / double(m.experts);
  add("ffn_gate_inp.weight", {m.experts}, m.hidden);
  if (m.selection_bias) add("exp_probs_b.bias", {}, m.experts);
  add("ffn_gate_exps.weight", {m.experts, m.expert_width}, m.hidden, used);
  add("ffn_up_exps.weight", {m.experts, m.expert_width}, m.hidden, used);
  add("ffn_down_exps.weight", {m.experts, m.hidden}, m.expert_width, used);
  if (m.shared_width) {
    add("ffn_gate_shexp.weight", {m.shared_width}, m.hidden);
    add("ffn_up_shexp.weight", {m.shared_width}, m.hidden);
    add("ffn_down_shexp.weight", {m.hidden}, m.shared_width);
  }
  return list;
}

Result<Hyperparameters> read_hyperparameters(const GgufFile& file) {
  Hyperparameters m;
  SMELT_TRY(architecture, supported_architecture(file));
  m.architecture = architecture;
  Keys keys(file, architecture);

  const int64_t blocks = keys.integer("block_count", 1, static_cast<int64_t>(gguf_limits::kLayers));
  m.layers = blocks - keys.integer_or("nextn_predict_layers", 0, 0, blocks - 1);
  m.context = keys.integer("context_length", 1, kContext);
  m.hidden = keys.integer("embedding_length", 1, kWidth);
  m.epsilon = keys.real("attention.layer_norm_rms_epsilon", 1e-12, 0.1);
  read_attention(keys, m);
  read_rotary(keys, m);
  SMELT_CHECK(keys.status());  // the rest looks into layers, so their number has to be right
  read_experts(keys, file, m);
  SMELT_CHECK(keys.status());
  SMELT_CHECK(read_vocabulary(keys, file, m));

  m.tied_output = !file.find("output.weight");
  m.fused_kv_b = !file.find("blk.0.attn_k_b.weight") && file.find("blk.0.attn_kv_b.weight");
  SMELT_CHECK(check_tensors(file, "", {embedding_tensor(m)}));
  SMELT_CHECK(check_tensors(file, "", head_tensors(m)));
  for (int64_t layer = 0; layer < m.layers; ++layer)
    SMELT_CHECK(check_tensors(file, layer_prefix(layer), layer_tensors(m, layer)));
  return m;
}

namespace {

// The pair whose angle makes `turns` turns within the original context.
double pair_with_turns(const RopeParameters& r, int64_t dims, double turns) {
  return dims * std::log(r.original_context / (turns * 2 * M_PI)) / (2 * std::log(r.base));
}

// Angle per position of each pair.
std::vector<double> frequencies(const RopeParameters& r, int64_t dims) {
  std::vector<double> result(dims / 2);
  double low = 0, high = 0;
  if (r.factor > 1) {
    low = std::max(std::floor(pair_with_turns(r, dims, r.beta_fast)), 0.0);
    high = std::min(std::ceil(pair_with_turns(r, dims, r.beta_slow)), dims - 1.0);
    if (high <= low) high = low + 0.001;
  }
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double plain = std::pow(r.base, -2.0 * i / dims);
    const double stretched = r.factor > 1 ? std::clamp((i - low) / (high - low), 0.0, 1.0) : 0;
    result[i] = plain * (1 - stretched) + plain / r.factor * stretched;
  }
  return result;
}

}  // namespace

RopeTables rope_tables(const Hyperparameters& m, int64_t context) {
  const std::vector<double> frequency = frequencies(m.rotary, m.rope);
  RopeTables tables;
  tables.cos.reserve(context * frequency.size());
  tables.sin.reserve(context * frequency.size());
  for (int64_t position = 0; position < context; ++position)
    for (double f : frequency) {
      tables.cos.push_back(static_cast<float>(std::cos(position * f)));
      tables.sin.push_back(static_cast<float>(std::sin(position * f)));
    }
  return tables;
}

}  // namespace smelt
