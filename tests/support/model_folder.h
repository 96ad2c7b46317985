// A small transformer as a folder of the Hugging Face hub.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/small_transformer.h"

namespace smelt::test {

inline std::string hub_name(std::string name) {
  const std::pair<std::string, std::string> parts[] = {{"token_embd.", "model.embed_tokens."},
                                                       {"output_norm.", "model.norm."},
                                                       {"output.", "lm_head."},
                                                       {"attn_norm.", "input_layernorm."},
                                                       {"attn_q_norm.", "self_attn.q_norm."},
                                                       {"attn_k_norm.", "self_attn.k_norm."},
                                                       {"attn_q.", "self_attn.q_proj."},
                                                       {"attn_k.", "self_attn.k_proj."},
                                                       {"attn_v.", "self_attn.v_proj."},
                                                       {"attn_output.", "self_attn.o_proj."},
                                                       {"ffn_norm.", "post_attention_layernorm."},
                                                       {"ffn_gate.", "mlp.gate_proj."},
                                                       {"ffn_up.", "mlp.up_proj."},
                                                       {"ffn_down.", "mlp.down_proj."},
                                                       {"blk.", "model.layers."}};
  for (const auto& [from, to] : parts)
    if (const size_t at = name.find(from); at == 0 || (at != std::string::npos && name[at - 1] == '.'))
      name.replace(at, from.size(), to);
  return name;
}

// Rows whose pairs lie side by side, a half of a head apart.
inline std::string in_halves(const std::string& rows, int heads) {
  const size_t count = static_cast<size_t>(heads * kWidth), bytes = rows.size() / count;
  std::string out(rows.size(), '\0');
  for (size_t row = 0; row < count; ++row) {
    const size_t head = row / kWidth, inside = row % kWidth,
                 to = head * kWidth + inside % 2 * (kWidth / 2) + inside / 2;
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

// The model in two files.
inline void write_model_folder(const std::filesystem::path& folder, const GgufWriter& writer,
                               const nlohmann::json& config) {
  std::filesystem::create_directories(folder);
  nlohmann::json tables[2];
  std::string data[2];
  for (size_t i = 0; i < writer.tensors.size(); ++i) {
    const GgufWriter::Tensor& t = writer.tensors[i];
    const bool swaps = config.at("model_type") == "llama";
    const bool is_query = t.name.find("attn_q.") != std::string::npos,
               is_key = t.name.find("attn_k.") != std::string::npos;
    std::string& all = data[i % 2];
    const size_t begin = all.size();
    all += swaps && (is_query || is_key) ? in_halves(t.data, is_query ? kHeads : kKvHeads) : t.data;
    tables[i % 2][hub_name(t.name)] = {{"dtype", "F32"},
                                       {"shape", std::vector<uint64_t>(t.dims.rbegin(), t.dims.rend())},
                                       {"data_offsets", {begin, all.size()}}};
  }
  tables[0]["__metadata__"] = {{"format", "pt"}};
  for (int i : {0, 1})
    write_text(folder / ("model-0000" + std::to_string(i + 1) + "-of-00002.safetensors"),
               safetensors_file(tables[i], data[i]));
  write_text(folder / "config.json", config.dump());
  write_text(folder / "tokenizer.json", small_tokenizer().dump());
  write_text(folder / "tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "<note>"})");
}

}  // namespace smelt::test
