#include "safetensors/folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gguf/model_parts.h"
#include "graph/scalar_math.h"
#include "safetensors/config.h"
#include "safetensors/tensor_names.h"
#include "safetensors/tensor_table.h"
#include "safetensors/tokenizer_json.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr uint64_t kMostJsonBytes = 256 << 20;

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

// Rows of each head: row i of the first half, row i of the second, and so on, in place of one half behind the other.
std::string with_pairs(const StoredTensor& t, int64_t heads) {
  const uint64_t rows = t.dims.size() > 1 ? t.dims[1] : t.dims[0], row_bytes = t.data.size() / rows,
                 width = rows / static_cast<uint64_t>(heads);
  std::string out(t.data.size(), '\0');
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t head = row / width, inside = row % width, half = inside * 2 / width, pair = inside % (width / 2);
    std::memcpy(out.data() + (head * width + pair * 2 + half) * row_bytes, t.data.data() + row * row_bytes, row_bytes);
  }
  return out;
}

// Vectors are floats of 32 bits in GGUF files.
std::string as_f32(const StoredTensor& t) {
  std::string out;
  for (size_t at = 0; at < t.data.size(); at += info_of(t.type).bytes) {
    uint16_t bits;
    std::memcpy(&bits, t.data.data() + at, sizeof bits);
    const auto value = static_cast<float>(from_bits(bits, t.type == GgufType::BF16 ? DType::BF16 : DType::F16).f);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
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
    if (parts_.tensors.empty()) return safetensors_error(folder_.string(), "there is no .safetensors file in it");
    return {};
  }

  Status add(StoredTensor t) {
    if (t.name.ends_with("rotary_emb.inv_freq")) return {};  // of older files: it follows from config.json
    const auto name = gguf_name(t.name);
    if (!name) return safetensors_error(t.name, "this tensor is not known; convert the model to a GGUF file");
    const bool is_query = name->find(".attn_q.") != std::string::npos,
               is_key = name->find(".attn_k.") != std::string::npos;
    if (model_.swaps_pairs && (is_query || is_key)) {
      const int64_t heads = is_query ? model_.heads : model_.kv_heads;
      const uint64_t rows = t.dims.back();
      if (rows % static_cast<uint64_t>(2 * heads) != 0)
        return safetensors_error(t.name, std::to_string(rows) + " rows are no whole pairs of " + std::to_string(heads) +
                                             " heads (config.json)");
      add_own(*name, t.dims, t.type, with_pairs(t, heads));
      return {};
    }
    if (t.dims.size() == 1 && t.type != GgufType::F32) {
      add_own(*name, t.dims, GgufType::F32, as_f32(t));
      return {};
    }
    parts_.tensors.push_back({*name, t.dims, t.type, t.data, parts_.files.size() - 1});
    return {};
  }

  void add_own(const std::string& name, std::vector<uint64_t> dims, GgufType type, std::string bytes) {
    parts_.tensors.push_back({.name = name, .dims = std::move(dims), .type = type, .own = std::move(bytes)});
  }

  void add_divisors() {
    if (model_.divisors.empty()) return;
    const auto* bytes = reinterpret_cast<const char*>(model_.divisors.data());
    add_own("rope_freqs.weight", {model_.divisors.size()}, GgufType::F32,
            {bytes, model_.divisors.size() * sizeof(float)});
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
