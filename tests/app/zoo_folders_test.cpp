// Models of the zoo as folders of the Hugging Face hub: the same tensors, numbers, vocabulary and logits as the GGUF
// file of the same weights.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/session.h"
#include "model/architectures.h"
#include "model/reference_dequant.h"
#include "safetensors/folder.h"
#include "support/model_folder.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kShared = fs::path(SMELT_SOURCE_DIR) / "../shared/models";

struct Zoo {
  const char* architecture;
  const char* type;
  const char* model_type;
};
constexpr Zoo kZoo[] = {
    {"llama", "Q8_0", "llama"},           {"qwen2", "Q8_0", "qwen2"},      {"qwen3", "Q8_0", "qwen3"},
    {"qwen3moe", "Q8_0", "qwen3_moe"},    {"glm4moe", "Q8_0", "glm4_moe"}, {"gemma3", "Q8_0", "gemma3_text"},
    {"deepseek2", "Q8_0", "deepseek_v3"}, {"gpt-oss", "MXFP4", "gpt_oss"}, {"qwen35moe", "Q8_0", "qwen3_5_moe_text"}};

// The file with its blocks of Q8_0 as floats. Of norms of Gemma and Qwen 3.5 1 is taken and added again, which rounds.
GgufWriter with_floats(const GgufFile& file) {
  GgufWriter w = GgufWriter::copy_of(file);
  const std::string_view architecture = *file.string("general.architecture");
  const bool adds_one = architecture == "gemma3" || architecture == "qwen35moe";
  for (GgufWriter::Tensor& t : w.tensors) {
    if (adds_one && t.name.ends_with("norm.weight") && !t.name.ends_with("ssm_norm.weight")) {
      auto* values = reinterpret_cast<float*>(t.data.data());
      for (size_t i = 0; i < t.data.size() / sizeof(float); ++i) values[i] = (values[i] - 1) + 1;
    }
    if (t.type != static_cast<uint32_t>(GgufType::Q8_0)) continue;
    const GgufTypeInfo& info = info_of(GgufType::Q8_0);
    std::string floats;
    for (size_t at = 0; at < t.data.size(); at += info.bytes) {
      const ReferenceBlock block(reinterpret_cast<const uint8_t*>(t.data.data() + at));
      for (uint32_t i = 0; i < info.elements; ++i)
        floats += GgufWriter::le(block.value(GgufType::Q8_0, static_cast<int>(i)));
    }
    t.type = static_cast<uint32_t>(GgufType::F32);
    t.data = std::move(floats);
  }
  return w;
}

// config.json of a file's numbers, as transformers writes it.
class ConfigOf {
 public:
  ConfigOf(const GgufFile& file, const char* model_type)
      : file_(file), prefix_(std::string(*file.string("general.architecture")) + "."), type_(model_type) {}

  Json json() const {
    Json c = {{"model_type", type_},
              {"hidden_size", number("embedding_length")},
              {"num_hidden_layers", number("block_count") - number("nextn_predict_layers", 0)},
              {"num_attention_heads", number("attention.head_count")},
              {"num_key_value_heads", number("attention.head_count_kv")},
              {"intermediate_size", number("feed_forward_length", 0)},
              {"max_position_embeddings", number("context_length")},
              {"rms_norm_eps", real("attention.layer_norm_rms_epsilon")},
              {"rope_theta", real("rope.freq_base")}};
    const uint64_t rope = number("rope.dimension_count", 0), width = number("attention.key_length", 0);
    if (width) c["head_dim"] = width;
    if (type_ == "qwen3_moe") add_experts(c, "num_experts", {{"norm_topk_prob", true}, {"decoder_sparse_step", 1}});
    if (type_ == "qwen3_5_moe_text") add_delta_net(c, double(rope) / double(width));
    if (type_ == "glm4_moe") {
      add_routed(c, {{"num_nextn_predict_layers", 1}});
      c["partial_rotary_factor"] = double(rope) / double(width);
    }
    if (type_ == "gemma3_text") {
      c.update(Json{{"sliding_window", number("attention.sliding_window")},
                    {"rope_scaling", {{"rope_type", "linear"}, {"factor", real("rope.scaling.factor")}}},
                    {"query_pre_attn_scalar", width}});
    }
    if (type_ == "deepseek_v3") {
      add_routed(c, {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}, {"moe_layer_freq", 1}});
      c.erase("head_dim");
      c.update(Json{{"q_lora_rank", number("attention.q_lora_rank")},
                    {"kv_lora_rank", number("attention.kv_lora_rank")},
                    {"qk_rope_head_dim", rope},
                    {"qk_nope_head_dim", number("attention.key_length_mla") - rope},
                    {"v_head_dim", number("attention.value_length_mla")},
                    {"rope_scaling", yarn({{"mscale", 1.0}, {"mscale_all_dim", 1.0}})}});
    }
    if (type_ == "gpt_oss") {
      Json layers = Json::array();
      for (uint64_t i = 0; i < number("block_count"); ++i)
        layers.push_back(i % 2 ? "full_attention" : "sliding_attention");
      add_experts(c, "num_local_experts",
                  {{"sliding_window", number("attention.sliding_window")}, {"layer_types", layers}});
      c["rope_scaling"] = yarn(Json::object());
    }
    if (type_ == "llama")
      c["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", 8.0},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 4.0},
                           {"original_max_position_embeddings", 1024}};
    return as_read(c);
  }

 private:
  uint64_t number(const char* key) const { return *file_.u64(prefix_ + key); }
  uint64_t number(const char* key, uint64_t fallback) const { return *file_.u64_or(prefix_ + key, fallback); }
  double real(const char* key) const { return *file_.f64(prefix_ + key); }
  void add_experts(Json& c, const char* count, const Json& more) const {
    c[count] = number("expert_count");
    c["num_experts_per_tok"] = number("expert_used_count");
    c["moe_intermediate_size"] = number("expert_feed_forward_length");
    c.update(more);
  }
  void add_delta_net(Json& c, double rotated) const {
    Json layers = Json::array();
    for (uint64_t i = 1; i <= number("block_count"); ++i)
      layers.push_back(i % number("full_attention_interval") ? "linear_attention" : "full_attention");
    add_experts(c, "num_experts",
                {{"shared_expert_intermediate_size", number("expert_shared_feed_forward_length")},
                 {"partial_rotary_factor", rotated},
                 {"layer_types", layers},
                 {"linear_conv_kernel_dim", number("ssm.conv_kernel")},
                 {"linear_key_head_dim", number("ssm.state_size")},
                 {"linear_value_head_dim", number("ssm.state_size")},
                 {"linear_num_key_heads", number("ssm.group_count")},
                 {"linear_num_value_heads", number("ssm.time_step_rank")}});
  }
  void add_routed(Json& c, const Json& more) const {
    add_experts(c, "n_routed_experts",
                {{"n_shared_experts", number("expert_shared_count")},
                 {"first_k_dense_replace", number("leading_dense_block_count")},
                 {"n_group", number("expert_group_count")},
                 {"topk_group", number("expert_group_used_count")},
                 {"norm_topk_prob", true},
                 {"routed_scaling_factor", real("expert_weights_scale")}});
    c.update(more);
  }
  Json yarn(const Json& more) const {
    Json rope = {{"rope_type", "yarn"},
                 {"factor", real("rope.scaling.factor")},
                 {"beta_fast", real("rope.scaling.yarn_beta_fast")},
                 {"beta_slow", real("rope.scaling.yarn_beta_slow")},
                 {"original_max_position_embeddings", number("rope.scaling.original_context_length")}};
    rope.update(more);
    return rope;
  }

  const GgufFile& file_;
  std::string prefix_, type_;
};

// The numbers that the engine reads of a file.
class Numbers final : public KeyWriter {
 public:
  explicit Numbers(const GgufFile& file) {
    auto model = read_model(file);
    REQUIRE_MESSAGE(model.ok(), model.error().message);
    (*model)->write_keys(*this);
  }
  void number(const std::string& key, int64_t value) override { all_ << key << " " << value << "\n"; }
  void real(const std::string& key, double value) override { all_ << key << " " << value << "\n"; }
  void flag(const std::string& key, bool value) override { all_ << key << " " << value << "\n"; }
  void text(const std::string& key, const std::string& value) override { all_ << key << " " << value << "\n"; }
  std::string text() const { return all_.str(); }

 private:
  std::ostringstream all_;
};

// Computed where a folder is read, not copied: a last bit may differ.
bool is_computed(const std::string& name) { return name == "rope_freqs.weight" || name.ends_with("ssm_a"); }

void check_same_tensors(const GgufFile& got, const GgufFile& wanted) {
  CHECK(got.tensors().size() == wanted.tensors().size());
  for (const GgufTensor& tensor : wanted.tensors()) {
    CAPTURE(tensor.name);
    const GgufTensor* found = got.find(tensor.name);
    REQUIRE(found);
    CHECK(found->type == tensor.type);
    CHECK(found->dims == tensor.dims);
    REQUIRE(found->bytes == tensor.bytes);
    if (is_computed(std::string(tensor.name))) continue;
    CHECK(std::equal(tensor.data, tensor.data + tensor.bytes, found->data));
  }
}

void check_same_vocabulary(const GgufFile& got, const GgufFile& wanted) {
  CHECK(*got.string("tokenizer.ggml.pre") == *wanted.string("tokenizer.ggml.pre"));
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    CAPTURE(key);
    CHECK(*got.strings(key) == *wanted.strings(key));
  }
  CHECK(*got.integers("tokenizer.ggml.token_type") == *wanted.integers("tokenizer.ggml.token_type"));
}

std::vector<float> logits_of(const GgufFile& file) {
  auto session =
      Session::open(file, {.threads = 1, .context = 256, .cache_type = DType::F32, .quantise_activations = false}, {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  std::vector<int32_t> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(300 + 37 * i % 1000);  // more than a window
  auto logits = (*session)->append(ids);
  REQUIRE(logits.ok());
  return {logits->begin(), logits->end()};
}

}  // namespace

TEST_CASE("folders of the zoo have tensors, numbers, vocabulary and logits of their GGUF files") {
  for (const Zoo& zoo : kZoo) {
    const fs::path path =
        kShared / "zoo" / zoo.architecture / (std::string(zoo.architecture) + "-" + zoo.type + ".gguf");
    if (!fs::exists(path)) {
      MESSAGE(path.string() << " is not there: not tested");
      continue;
    }
    CAPTURE(path.string());
    const auto original = GgufFile::open(path.string());
    REQUIRE(original.ok());
    const GgufWriter writer = with_floats(*original);
    const std::vector<std::byte> bytes = writer.bytes();
    const auto wanted = GgufFile::open_memory(bytes);
    REQUIRE_MESSAGE(wanted.ok(), wanted.error().message);

    const TempFolder temporary;
    const fs::path folder = temporary.path();
    const Json config = ConfigOf(*original, zoo.model_type).json();
    FolderWriter(writer, config["num_attention_heads"], config["num_key_value_heads"]).write(folder);
    write_text(folder / "config.json", config.dump());
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy(kShared / "tiny-glm" / name, folder / name);
    const auto got = open_model_files(folder.string());
    REQUIRE_MESSAGE(got.ok(), got.error().message);

    check_same_tensors(*got, *wanted);
    check_same_vocabulary(*got, *wanted);
    CHECK(Numbers(*got).text() == Numbers(*wanted).text());
    const std::vector<float> logits = logits_of(*got), of_file = logits_of(*wanted);
    REQUIRE(logits.size() == of_file.size());
    double worst = 0, greatest = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      worst = std::max(worst, std::abs(double{logits[i]} - of_file[i]));
      greatest = std::max(greatest, std::abs(double{of_file[i]}));
    }
    CAPTURE(worst);
    const bool has_computed = std::ranges::any_of(
        wanted->tensors(), [](const GgufTensor& tensor) { return is_computed(std::string(tensor.name)); });
    CHECK(worst <= (has_computed ? 1e-6 * greatest : 0));
  }
}
