#include "safetensors/folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gguf/model_parts.h"
#include "safetensors/config.h"
#include "safetensors/tensor_names.h"
#include "safetensors/tensor_rows.h"
#include "safetensors/tensor_table.h"
#include "safetensors/tokenizer_json.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint64_t kMostJsonBytes = 256 << 20;
constexpr uint32_t kMostPieces = 1 << 14;

Result<Json> read_json(const fs::path& path) {
  SMELT_TRY(text, read_file(path.string(), kMostJsonBytes));
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return safetensors_error(path.string(), "it is no JSON; fetch it again");
  return json;
}

// An empty object where there is no such file.
Result<Json> read_optional_json(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  return read_json(path);
}

// The tokenizer's own settings, with a template that lies beside them.
Result<Json> read_tokenizer_config(const fs::path& folder) {
  SMELT_TRY(config, read_optional_json(folder / "tokenizer_config.json"));
  if (!config.is_object()) config = Json::object();
  if (fs::exists(folder / "chat_template.jinja")) {
    SMELT_TRY(text, read_file((folder / "chat_template.jinja").string(), kMostJsonBytes));
    config["chat_template"] = text;
  }
  return config;
}

std::vector<std::string> tensor_files(const fs::path& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<uint64_t> without_ones(std::vector<uint64_t> dims) {
  std::erase(dims, 1);
  return dims;
}

class FolderReader {
 public:
  explicit FolderReader(const std::string& path) : folder_(path), parts_{.path = path} {}

  Result<GgufFile> read() {
    SMELT_TRY(config, read_json(folder_ / "config.json"));
    SMELT_TRY(model, read_config(config, parts_.metadata));
    model_ = std::move(model);
    SMELT_CHECK(add_tensors());
    add_divisors();
    SMELT_CHECK(add_tokenizer());
    return GgufFile::from_parts(std::move(parts_));
  }

 private:
  Status add_tensors() {
    for (const std::string& path : tensor_files(folder_)) {
      SMELT_TRY(map, MappedFile::open(path));
      parts_.files.push_back({path, std::move(map)});
      SMELT_TRY(table, read_tensor_table(parts_.files.back().map.bytes(), path));
      for (StoredTensor& tensor : table) SMELT_CHECK(add(std::move(tensor)));
    }
    SMELT_CHECK(add_joined());
    if (parts_.tensors.empty()) return safetensors_error(folder_.string(), "there is no .safetensors file in it");
    return {};
  }

  Status add(StoredTensor t) {
    if (is_left_out(t.name)) return {};
    const auto name = gguf_name(t.name, *model_.family);
    if (!name) return safetensors_error(t.name, "this tensor is not known; convert the model to a GGUF file");
    if (!name->piece) return add_whole(name->name, t);
    std::vector<StoredTensor>& pieces = pieces_[name->name];
    if (*name->piece >= kMostPieces) return safetensors_error(t.name, "there are too many experts");
    pieces.resize(std::max<size_t>(pieces.size(), *name->piece + 1));
    pieces[*name->piece] = std::move(t);
    return {};
  }

  Status add_whole(const std::string& name, const StoredTensor& t) {
    const bool is_bytes = t.type == GgufType::I8, is_query = name.find(".attn_q.") != std::string::npos,
               is_key = name.find(".attn_k.") != std::string::npos;
    if (is_bytes) return safetensors_error(t.name, "dtype U8 is not supported for it; F32, F16 and BF16 are");
    if (model_.family->swaps_pairs && (is_query || is_key)) {
      const int64_t heads = is_query ? model_.heads : model_.kv_heads;
      const uint64_t rows = t.dims.back();
      if (rows % static_cast<uint64_t>(2 * heads) != 0)
        return safetensors_error(t.name, std::to_string(rows) + " rows are no whole pairs of " + std::to_string(heads) +
                                             " heads (config.json)");
      add_own({name, t.dims, t.type, with_pairs(t, heads)});
    } else if (model_.v_head && name.find(".attn_kv_b.") != std::string::npos) {
      SMELT_TRY(parts, keys_and_values(name, t, model_.heads, model_.nope, model_.v_head));
      for (MadeTensor& part : parts) add_own(std::move(part));
    } else {
      return add_as_it_is(name, t);
    }
    return {};
  }

  // Vectors, what experts have of them and short convolutions are floats of 32 bits in GGUF files.
  Status add_as_it_is(const std::string& name, const StoredTensor& t) {
    const bool is_norm = name.ends_with("norm.weight") && !name.ends_with("ssm_norm.weight"),
               is_vector = t.dims.size() == 1 || name.ends_with(".bias"),
               has_axis_of_one = name.ends_with("ssm_conv1d.weight") || name.ends_with("ffn_gate_inp_shexp.weight");
    if (has_axis_of_one) return add_made({name, without_ones(t.dims), GgufType::F32, as_f32(t, 0)});
    if (is_of_net(name)) return add_of_net(name, t);
    if (name.ends_with("_exps.weight") && model_.family->architecture == "gpt-oss")  // they lie in another order
      return safetensors_error(t.name,
                               "experts of gpt-oss are read as blocks of 4 bits; convert the model to a GGUF file");
    if (name.ends_with("ffn_gate_up_exps.weight")) {
      SMELT_TRY(parts, gate_then_up(name, t));
      for (MadeTensor& part : parts) add_own(std::move(part));
      return {};
    }
    const float offset = is_norm && model_.family->adds_one ? 1 : 0;
    if (name.ends_with("ffn_gate_up_exps.bias")) return add_gate_and_up({name, t.dims, GgufType::F32, as_f32(t, 0)});
    if (is_vector && (t.type != GgufType::F32 || offset != 0))
      add_own({name, t.dims, GgufType::F32, as_f32(t, offset)});
    else
      parts_.tensors.push_back({name, t.dims, t.type, t.data, parts_.files.size() - 1});
    return {};
  }

  bool is_of_net(const std::string& name) const {
    if (name.ends_with("ssm_a")) return true;
    constexpr std::array<std::string_view, 6> kOfNet = {"attn_qkv.weight",  "attn_gate.weight", "ssm_beta.weight",
                                                        "ssm_alpha.weight", "ssm_dt.bias",      "ssm_out.weight"};
    return model_.family->has_neighbours &&
           std::any_of(kOfNet.begin(), kOfNet.end(), [&](std::string_view end) { return name.ends_with(end); });
  }

  Status add_of_net(const std::string& name, const StoredTensor& t) {
    if (name.ends_with("ssm_a")) return add_made({name, t.dims, GgufType::F32, decay_rates(t)});
    if (t.dims.size() == 1) return add_made({name, t.dims, GgufType::F32, as_f32(t, 0)});
    return add_made({name, t.dims, t.type, {reinterpret_cast<const char*>(t.data.data()), t.data.size()}});
  }

  // With the heads of delta nets in the order of GGUF files.
  Status add_made(MadeTensor t) {
    if (model_.family->has_neighbours) SMELT_CHECK(take_turns(t, model_.net));
    add_own(std::move(t));
    return {};
  }

  // What several tensors of the folder become.
  Status add_joined() {
    for (const auto& [name, pieces] : pieces_) {
      const bool is_packed = pieces[kBlocksPiece].type == GgufType::I8;
      SMELT_TRY(joined, is_packed ? mxfp4_blocks(name, pieces[kBlocksPiece], pieces.back()) : stacked(name, pieces));
      if (name.ends_with("ffn_gate_up_exps.weight")) {
        SMELT_CHECK(add_gate_and_up(joined));
      } else {
        add_own(std::move(joined));
      }
    }
    return {};
  }

  Status add_gate_and_up(const MadeTensor& both) {
    SMELT_TRY(parts, gate_and_up(both));
    for (MadeTensor& part : parts) add_own(std::move(part));
    return {};
  }

  void add_own(MadeTensor t) {
    parts_.tensors.push_back(
        {.name = std::move(t.name), .dims = std::move(t.dims), .type = t.type, .own = std::move(t.bytes)});
  }

  void add_divisors() {
    for (const auto& [name, divisors] : model_.divisors) {
      const auto* bytes = reinterpret_cast<const char*>(divisors.data());
      add_own({name, {divisors.size()}, GgufType::F32, {bytes, divisors.size() * sizeof(float)}});
    }
  }

  Status add_tokenizer() {
    const auto embedding = std::find_if(parts_.tensors.begin(), parts_.tensors.end(),
                                        [](const ModelParts::Tensor& t) { return t.name == "token_embd.weight"; });
    if (embedding == parts_.tensors.end() || embedding->dims.size() != 2)
      return safetensors_error(folder_.string(), "model.embed_tokens.weight is missing, or no matrix");
    SMELT_TRY(tokenizer, read_json(folder_ / "tokenizer.json"));
    SMELT_TRY(config, read_tokenizer_config(folder_));
    return read_tokenizer_json(tokenizer, config, embedding->dims[1], parts_.metadata);
  }

  fs::path folder_;
  ModelParts parts_;
  HubConfig model_;
  std::map<std::string, std::vector<StoredTensor>> pieces_;  // of tensors that several of the folder become
};

}  // namespace

bool is_model_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) && fs::exists(fs::path(path) / "config.json", ignored);
}

Result<GgufFile> open_model_files(const std::string& path) {
  return is_model_folder(path) ? FolderReader(path).read() : GgufFile::open(path);
}

}  // namespace smelt
