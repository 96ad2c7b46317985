// A small transformer as a folder of the Hugging Face hub.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/small_transformer.h"

namespace smelt::test {

// What a tensor of a GGUF file is called in a folder; "*" stands for the number of an expert.
inline std::string hub_name(std::string name, const std::string& architecture) {
  const bool has_four_norms = architecture == "gemma3", is_glm4 = architecture == "glm4",
             is_granite = architecture == "granitemoe", has_shared_gate = architecture.starts_with("qwen3");
  const std::string shared = has_shared_gate ? "mlp.shared_expert." : "mlp.shared_experts.";
  const std::pair<std::string, std::string> parts[] = {
      {"token_embd.", "model.embed_tokens."},
      {"output_norm.", "model.norm."},
      {"output.", "lm_head."},
      {"attn_norm.", "input_layernorm."},
      {"attn_q_norm.", "self_attn.q_norm."},
      {"attn_k_norm.", "self_attn.k_norm."},
      {"attn_q.", "self_attn.q_proj."},
      {"attn_k.", "self_attn.k_proj."},
      {"attn_v.", "self_attn.v_proj."},
      {"attn_output.", "self_attn.o_proj."},
      {"attn_sinks.weight", "self_attn.sinks"},
      {"attn_q_a.", "self_attn.q_a_proj."},
      {"attn_q_a_norm.", "self_attn.q_a_layernorm."},
      {"attn_q_b.", "self_attn.q_b_proj."},
      {"attn_kv_a_mqa.", "self_attn.kv_a_proj_with_mqa."},
      {"attn_kv_a_norm.", "self_attn.kv_a_layernorm."},
      {"attn_kv_b.", "self_attn.kv_b_proj."},
      {"ffn_norm.", has_four_norms ? "pre_feedforward_layernorm." : "post_attention_layernorm."},
      {"post_attention_norm.", is_glm4 ? "post_self_attn_layernorm." : "post_attention_layernorm."},
      {"post_ffw_norm.", is_glm4 ? "post_mlp_layernorm." : "post_feedforward_layernorm."},
      {"attn_qkv.", architecture == "phi3" ? "self_attn.qkv_proj." : "linear_attn.in_proj_qkv."},
      {"ffn_gate.", "mlp.gate_proj."},
      {"ffn_up.", is_glm4 || architecture == "phi3" ? "mlp.gate_up_proj." : "mlp.up_proj."},
      {"ffn_down.", "mlp.down_proj."},
      {"ffn_gate_inp.", architecture == "gpt-oss" ? "mlp.router."
                        : is_granite              ? "block_sparse_moe.router.layer."
                                                  : "mlp.gate."},
      {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
      {"ffn_gate_exps.", "mlp.experts.*.gate_proj."},
      {"ffn_up_exps.", "mlp.experts.*.up_proj."},
      {"ffn_down_exps.", "mlp.experts.*.down_proj."},
      {"ffn_gate_shexp.", shared + "gate_proj."},
      {"ffn_up_shexp.", shared + "up_proj."},
      {"ffn_down_shexp.", shared + "down_proj."},
      {"ffn_gate_inp_shexp.", "mlp.shared_expert_gate."},
      {"ssm_in.", "linear_attn.in_proj_qkvz."},
      {"attn_gate.", "linear_attn.in_proj_z."},
      {"ssm_beta.", "linear_attn.in_proj_b."},
      {"ssm_alpha.", "linear_attn.in_proj_a."},
      {"ssm_ba.", "linear_attn.in_proj_ba."},
      {"ssm_conv1d.", "linear_attn.conv1d."},
      {"ssm_norm.", "linear_attn.norm."},
      {"ssm_out.", "linear_attn.out_proj."},
      {"ssm_dt.bias", "linear_attn.dt_bias"},
      {"ssm_a", "linear_attn.A_log"},
      {"nextn.enorm.", "enorm."},
      {"nextn.hnorm.", "hnorm."},
      {"nextn.eh_proj.", "eh_proj."},
      {"nextn.embed_tokens.", "embed_tokens."},
      {"nextn.shared_head_norm.", "shared_head.norm."},
      {"nextn.shared_head_head.", "shared_head.head."},
      {"blk.", "model.layers."}};
  for (const auto& [from, to] : parts)
    if (const size_t at = name.find(from); at == 0 || (at != std::string::npos && name[at - 1] == '.'))
      name.replace(at, from.size(), to);
  return name;
}

// Rows whose pairs lie side by side, a half of a head apart.
inline std::string in_halves(const std::string& rows, size_t heads, size_t width) {
  const size_t count = heads * width, bytes = rows.size() / count;
  std::string out(rows.size(), '\0');
  for (size_t row = 0; row < count; ++row) {
    const size_t head = row / width, inside = row % width, to = head * width + inside % 2 * (width / 2) + inside / 2;
    std::memcpy(out.data() + to * bytes, rows.data() + row * bytes, bytes);
  }
  return out;
}

// As files have it: numbers without a sign are of another type than those of programs.
inline nlohmann::json as_read(const nlohmann::json& json) { return nlohmann::json::parse(json.dump()); }

inline nlohmann::json small_config(const std::string& model_type) {
  return as_read({{"model_type", model_type},
                  {"hidden_size", kHidden},
                  {"num_hidden_layers", kLayers},
                  {"num_attention_heads", kHeads},
                  {"num_key_value_heads", kKvHeads},
                  {"head_dim", kWidth},
                  {"intermediate_size", kInner},
                  {"max_position_embeddings", 512},
                  {"rms_norm_eps", kEpsilon},
                  {"rope_theta", kBase}});
}

// 25 letters, a line's end, a space, two merges and a token that begins texts.
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocabulary;
  for (int i = 0; i < 25; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = i;
  vocabulary["\u010a"] = 25;
  vocabulary["\u0120"] = 26;
  vocabulary["ab"] = 27;
  vocabulary["abc"] = 28;
  return as_read(
      {{"added_tokens",
        {{{"id", 30}, {"content", "<s>"}, {"special", true}}, {{"id", 31}, {"content", "<note>"}, {"special", false}}}},
       {"pre_tokenizer", {{"type", "ByteLevel"}, {"use_regex", true}}},
       {"post_processor", {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}}}},
       {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b", {"ab", "c"}}}}}});
}

// `bytes` of a .safetensors file of what a table gives.
inline std::string safetensors_file(const nlohmann::json& table, const std::string& data) {
  const std::string text = table.dump();
  return GgufWriter::le<uint64_t>(text.size()) + text + data;
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Tensors in two files.
class FolderTensors {
 public:
  void add(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape, const std::string& bytes) {
    std::string& all = data_[count_ % 2];
    const size_t begin = all.size();
    all += bytes;
    tables_[count_++ % 2][name] = {
        {"dtype", dtype}, {"shape", std::move(shape)}, {"data_offsets", {begin, all.size()}}};
  }
  void write(const std::filesystem::path& folder) {
    tables_[0]["__metadata__"] = {{"format", "pt"}};
    for (int i : {0, 1})
      write_text(folder / ("model-0000" + std::to_string(i + 1) + "-of-00002.safetensors"),
                 safetensors_file(tables_[i], data_[i]));
  }

 private:
  nlohmann::json tables_[2];
  std::string data_[2];
  size_t count_ = 0;
};

// A GGUF file's tensors, of F32 but for experts of MXFP4, as those of a folder.
class FolderWriter {
 public:
  FolderWriter(const GgufWriter& writer, size_t heads, size_t kv_heads)
      : writer_(writer), heads_(heads), kv_heads_(kv_heads) {
    for (const GgufWriter::Entry& entry : writer.entries)
      if (entry.key == "general.architecture") architecture_ = entry.value.substr(sizeof(uint64_t));
  }

  void write(const std::filesystem::path& folder) {
    for (const GgufWriter::Tensor& t : writer_.tensors) add(t);
    out_.write(folder);
  }

 private:
  static bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }
  static std::vector<uint64_t> shape_of(const GgufWriter::Tensor& t) { return {t.dims.rbegin(), t.dims.rend()}; }
  const GgufWriter::Tensor& find(const std::string& name) const {
    return *std::find_if(writer_.tensors.begin(), writer_.tensors.end(), [&](const auto& t) { return t.name == name; });
  }
  static std::string with(std::string name, const std::string& from, const std::string& to) {
    return name.replace(name.find(from), from.size(), to);
  }

  void add(const GgufWriter::Tensor& t) {
    const bool is_query = has(t.name, "attn_q."), is_key = has(t.name, "attn_k.");
    if (has(t.name, "rope_freqs.") || has(t.name, "rope_factors_")) return;  // follow from config.json
    if (has(t.name, "attn_v_b.")) return;                                    // beside the other
    if (has(t.name, "attn_k_b.")) return add_keys_and_values(t, find(with(t.name, "attn_k_b", "attn_v_b")));
    if (architecture_ == "gpt-oss" && has(t.name, "_exps.")) return add_packed(t);
    const bool is_qwen35 = architecture_.starts_with("qwen35");
    if ((architecture_ == "granitemoe" || is_qwen35) && has(t.name, "_exps.")) return add_fused(t);
    if (has(t.name, "_exps.")) return add_experts(t);
    std::string bytes = t.data;
    std::vector<uint64_t> shape = shape_of(t);
    const bool swaps = architecture_ == "llama" || architecture_ == "mistral3" || architecture_.starts_with("granite"),
               adds_one = architecture_ == "gemma3" || architecture_ == "qwen3next" || is_qwen35;
    if (swaps && (is_query || is_key)) {
      const size_t heads = is_query ? heads_ : kv_heads_;
      bytes = in_halves(bytes, heads, t.dims.back() / heads);
    }
    if (adds_one && t.name.ends_with("norm.weight") && !has(t.name, "ssm_norm."))
      bytes = changed(bytes, [](float value) { return value - 1; });
    if (t.name.ends_with("ssm_a")) bytes = changed(bytes, [](float value) { return std::log(-value); });
    if (is_qwen35) bytes = with_neighbours(t, std::move(bytes));
    if (has(t.name, "ffn_gate_inp_shexp.")) shape.insert(shape.begin(), 1);
    if (has(t.name, "ssm_conv1d.")) shape.insert(shape.begin() + 1, 1);
    out_.add(hub_name(t.name, architecture_), "F32", shape, bytes);
  }

  template <class F>
  static std::string changed(const std::string& floats, F&& change) {
    std::string out;
    for (size_t at = 0; at < floats.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, floats.data() + at, sizeof value);
      out += GgufWriter::le(static_cast<float>(change(value)));
    }
    return out;
  }

  // Value heads of a delta net, which take turns, as neighbours of those that share their key head.
  std::string with_neighbours(const GgufWriter::Tensor& t, std::string bytes) const {
    const size_t values = number("ssm.time_step_rank"), keys = number("ssm.group_count"),
                 width = number("ssm.state_size"), each = values / keys,
                 row = bytes.size() / (t.dims.size() > 1 ? t.dims[1] : t.dims[0]);
    const auto move = [&](size_t begin, size_t size) {
      const std::string before = bytes.substr(begin, values * size);
      for (size_t head = 0; head < values; ++head)
        bytes.replace(begin + (head % keys * each + head / keys) * size, size, before, head * size, size);
    };
    if (has(t.name, "attn_qkv.") || has(t.name, "ssm_conv1d.")) move(2 * keys * width * row, width * row);
    if (has(t.name, "attn_gate.")) move(0, width * row);
    if (has(t.name, "ssm_beta.") || has(t.name, "ssm_alpha.") || has(t.name, "ssm_dt.") || t.name.ends_with("ssm_a"))
      move(0, row);
    if (has(t.name, "ssm_out."))
      for (size_t at = 0; at < bytes.size(); at += row) move(at, width * sizeof(float));
    return bytes;
  }
  size_t number(const char* key) const {
    for (const GgufWriter::Entry& entry : writer_.entries)
      if (entry.key == architecture_ + "." + key) {
        uint32_t value;
        std::memcpy(&value, entry.value.data(), sizeof value);
        return value;
      }
    return 0;
  }

  // Granite and Qwen 3.5: one stack, of each expert the rows of its gate and then those of what that opens.
  void add_fused(const GgufWriter::Tensor& t) {
    if (has(t.name, "ffn_up_exps")) return;  // beside the gate
    const bool is_granite = architecture_ == "granitemoe";
    const std::string proj = hub_name(t.name.substr(0, t.name.find("ffn_")), architecture_) +
                             (is_granite ? "block_sparse_moe." : "mlp.experts."),
                      down = is_granite ? "output_linear.weight" : "down_proj",
                      gate_up = is_granite ? "input_linear.weight" : "gate_up_proj";
    if (has(t.name, "ffn_down_exps")) return out_.add(proj + down, "F32", shape_of(t), t.data);
    const std::string& up = find(with(t.name, "ffn_gate_exps", "ffn_up_exps")).data;
    const size_t matrix = up.size() / t.dims[2];
    std::string bytes;
    for (size_t at = 0; at < up.size(); at += matrix) bytes += t.data.substr(at, matrix) + up.substr(at, matrix);
    out_.add(proj + gate_up, "F32", {t.dims[2], 2 * t.dims[1], t.dims[0]}, bytes);
  }

  void add_experts(const GgufWriter::Tensor& t) {
    const std::string name = hub_name(t.name, architecture_);
    const size_t bytes = t.data.size() / t.dims[2];
    for (size_t e = 0; e < t.dims[2]; ++e)
      out_.add(with(name, "*", std::to_string(e)), "F32", {t.dims[1], t.dims[0]}, t.data.substr(e * bytes, bytes));
  }

  // Of each head the rows of its key, then those of its value. k [heads, lora, nope], v [heads, value, lora]
  void add_keys_and_values(const GgufWriter::Tensor& k, const GgufWriter::Tensor& v) {
    const size_t nope = k.dims[0], lora = k.dims[1], heads = k.dims[2], values = v.dims[1], size = sizeof(float);
    std::string bytes;
    for (size_t head = 0; head < heads; ++head) {
      for (size_t row = 0; row < nope; ++row)
        for (size_t column = 0; column < lora; ++column)
          bytes += k.data.substr(((head * lora + column) * nope + row) * size, size);
      bytes += v.data.substr(head * values * lora * size, values * lora * size);
    }
    out_.add(hub_name(with(k.name, "attn_k_b", "attn_kv_b"), architecture_), "F32", {heads * (nope + values), lora},
             bytes);
  }

  // gpt-oss: rows of gate and up by turns; weights as nibbles of neighbours, apart from their scales.
  void add_packed(const GgufWriter::Tensor& t) {
    if (has(t.name, "ffn_up_exps")) return;  // beside the gate
    const bool is_gate = has(t.name, "ffn_gate_exps"), is_bias = t.name.ends_with("bias");
    std::string bytes = t.data;
    std::vector<uint64_t> shape = shape_of(t);
    if (is_gate) {
      const std::string& up = find(with(t.name, "ffn_gate_exps", "ffn_up_exps")).data;
      const size_t row = is_bias ? sizeof(float) : t.data.size() / t.dims[1] / t.dims[2];
      bytes.clear();
      for (size_t at = 0; at < up.size(); at += row) bytes += t.data.substr(at, row) + up.substr(at, row);
      shape[1] *= 2;
    }
    const std::string name = t.name.substr(0, t.name.find("ffn_")),
                      proj = std::string("mlp.experts.") + (is_gate ? "gate_up_proj" : "down_proj");
    const std::string full = hub_name(name, architecture_) + proj;
    if (is_bias) return out_.add(full + "_bias", "F32", shape, bytes);
    constexpr size_t kBlock = 17;
    std::string scales, blocks;
    for (size_t at = 0; at < bytes.size(); at += kBlock) {
      scales += bytes[at];
      const auto nibble = [&](size_t i) { return bytes[at + 1 + i % 16] >> (i / 16 * 4) & 15; };
      for (size_t i = 0; i < 32; i += 2) blocks += static_cast<char>(nibble(i) | nibble(i + 1) << 4);
    }
    shape[2] /= 32;
    out_.add(full + "_scales", "U8", shape, scales);
    shape.push_back(16);
    out_.add(full + "_blocks", "U8", shape, blocks);
  }

  const GgufWriter& writer_;
  size_t heads_, kv_heads_;
  std::string architecture_;
  FolderTensors out_;
};

inline void write_model_folder(const std::filesystem::path& folder, const GgufWriter& writer,
                               const nlohmann::json& config) {
  std::filesystem::create_directories(folder);
  FolderWriter(writer, kHeads, kKvHeads).write(folder);
  write_text(folder / "config.json", config.dump());
  write_text(folder / "tokenizer.json", small_tokenizer().dump());
  write_text(folder / "tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "<note>"})");
}

}  // namespace smelt::test
