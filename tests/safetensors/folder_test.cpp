// Folders of the Hugging Face hub become the GGUF files that other programs make of them.
#include "safetensors/folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "model/small_models.h"
#include "safetensors/config.h"
#include "safetensors/tensor_table.h"
#include "safetensors/tokenizer_json.h"
#include "support/model_folder.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;
using Json = nlohmann::json;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Traits kLlama = {};

std::string error_of(const std::filesystem::path& folder) {
  const auto file = open_model_files(folder.string());
  return file ? "" : file.error().message;
}

// What config.json has of a small model beside small_config().
Json config_of(const Traits& traits) {
  const std::string& a = traits.architecture;
  const Json layer_types = {traits.has_delta_net() ? "linear_attention" : "sliding_attention", "full_attention"};
  Json config = small_config(a);
  if (a == "glm4") config["partial_rotary_factor"] = double(traits.rotated) / kWidth;
  if (traits.is_granite())
    config.update(Json{{"embedding_multiplier", kEmbeddingScale},
                       {"attention_multiplier", kAttentionScale},
                       {"residual_multiplier", kResidualScale},
                       {"logits_scaling", kLogitScale},
                       {"position_embedding_type", traits.rotates ? "rope" : "nope"}});
  if (a == "granitemoe") config.update(Json{{"num_local_experts", kExperts}, {"num_experts_per_tok", kUsed}});
  if (traits.is_ministral())
    config.update(Json{{"model_type", "ministral3"},
                       {"sliding_window", nullptr},
                       {"rope_parameters",
                        {{"rope_type", "yarn"},
                         {"rope_theta", kBase},
                         {"factor", 16},
                         {"mscale", 1.0},
                         {"mscale_all_dim", 1.0},
                         {"original_max_position_embeddings", kTemperatureSpan},
                         {"llama_4_scaling_beta", kTemperature}}}});
  if (traits.has_local_layers)
    config.update(Json{{"model_type", "olmo3"}, {"sliding_window", kWindow}, {"layer_types", layer_types}});
  if (traits.has_delta_net())
    config.update(Json{{"model_type", a == "qwen35"      ? "qwen3_5_text"
                                      : a == "qwen35moe" ? "qwen3_5_moe_text"
                                                         : "qwen3_next"},
                       {"partial_rotary_factor", double(traits.rotated) / kWidth},
                       {"layer_types", layer_types},
                       {"linear_conv_kernel_dim", kTaps},
                       {"linear_key_head_dim", kNetWidth},
                       {"linear_value_head_dim", kNetWidth},
                       {"linear_num_key_heads", kNetKeys},
                       {"linear_num_value_heads", kNetValues},
                       {"num_experts", kExperts},
                       {"num_experts_per_tok", kUsed},
                       {"moe_intermediate_size", kInner},
                       {"shared_expert_intermediate_size", kInner}});
  return as_read(config);
}

// With the lists of factors that the small model has as tensors.
Json phi_config(const GgufFile& file) {
  const auto factors = [&](const char* name) {
    const auto* values = reinterpret_cast<const float*>(file.find(name)->data);
    return std::vector<double>(values, values + kWidth / 2);
  };
  Json config = small_config("phi3");
  config.update(Json{{"sliding_window", kWindow},
                     {"original_max_position_embeddings", 256},
                     {"rope_scaling",
                      {{"type", "longrope"},
                       {"attention_factor", 1.25},
                       {"short_factor", factors("rope_factors_short.weight")},
                       {"long_factor", factors("rope_factors_long.weight")}}}});
  return as_read(config);
}

// The values of an F32 tensor. Copied: data of a safetensors file need not be aligned.
std::vector<float> floats_of(const GgufTensor& tensor) {
  std::vector<float> values(tensor.bytes / sizeof(float));
  memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

// Sums and exponentials of floats do not go forth and back to the last bit.
void check_near(const GgufTensor& got, const GgufTensor& wanted) {
  const std::vector<float> got_values = floats_of(got), wanted_values = floats_of(wanted);
  REQUIRE(got_values.size() == wanted_values.size());
  for (size_t i = 0; i < wanted_values.size(); ++i)
    CHECK(got_values[i] == doctest::Approx(wanted_values[i]).epsilon(1e-6));
}

// The error of a folder with another config.json.
// As the GGUF file of the folder has them.
Result<std::vector<int64_t>> sections_with(const Json& sections) {
  const TempFolder folder;
  Json config = small_config("llama");
  config["rope_parameters"] = {{"mrope_section", sections}};
  write_model_folder(folder.path(), SmallTransformer(kLlama).writer, config);
  const auto file = open_model_files(folder.path());
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  return file->integers("llama.rope.dimension_sections");
}

std::string error_with(const char* key, const Json& value) {
  const TempFolder folder;
  Json config = small_config("llama");
  config[key] = value;
  write_model_folder(folder.path(), SmallTransformer(kLlama).writer, config);
  return error_of(folder.path());
}

}  // namespace

TEST_CASE("the pairs that turn by each place are kept for other programs") {
  CHECK(*sections_with({11, 11, 10}) == std::vector<int64_t>{11, 11, 10, 0});
  CHECK(!sections_with({1, 1, 1, 1, 1}).ok());
  CHECK(!sections_with({-1, 1e9, "a"}).ok());
  CHECK(!sections_with(nullptr).ok());
}

TEST_CASE("a folder has the keys and tensors of the GGUF file of the same model") {
  for (const Traits& traits : published_models()) {
    CAPTURE(traits.architecture);
    const SmallTransformer small(traits);
    const std::vector<std::byte> bytes = small.writer.bytes();
    const auto wanted = GgufFile::open_memory(bytes);
    const TempFolder folder;
    write_model_folder(folder.path(), small.writer, traits.is_phi() ? phi_config(*wanted) : config_of(traits));
    const auto file = open_model_files(folder.path());
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    for (const GgufValue& value : wanted->metadata()) {
      CAPTURE(value.key);
      if (value.key == "qwen35moe.feed_forward_length") continue;  // no layer has such a network
      const GgufValue* found = file->value(value.key);
      REQUIRE(found);
      CHECK(std::ranges::equal(found->bytes, value.bytes));
    }
    CHECK(file->tensors().size() == wanted->tensors().size());
    for (const GgufTensor& tensor : wanted->tensors()) {
      CAPTURE(tensor.name);
      const GgufTensor* found = file->find(tensor.name);
      REQUIRE(found);
      CHECK(found->dims == tensor.dims);
      REQUIRE(found->bytes == tensor.bytes);
      const bool is_changed =
          traits.has_delta_net() && (tensor.name.ends_with("norm.weight") || tensor.name.ends_with("ssm_a"));
      if (is_changed)
        check_near(*found, tensor);
      else
        CHECK(std::equal(tensor.data, tensor.data + tensor.bytes, found->data));
    }
  }
}

TEST_CASE("the tokenizer of a folder has its tokens, merges and special tokens") {
  const TempFolder folder;
  write_model_folder(folder.path(), SmallTransformer(kLlama).writer, small_config("llama"));
  write_text(folder / "chat_template.jinja", "{{ messages }}");
  const auto file = open_model_files(folder.path());
  REQUIRE(file.ok());
  CHECK(*file->string("tokenizer.ggml.pre") == "gpt-2");
  const auto tokens = file->strings("tokenizer.ggml.tokens");
  REQUIRE(tokens->size() == size_t{kVocabulary});
  CHECK((*tokens)[27] == "ab");
  CHECK((*tokens)[29] == "[PAD29]");
  CHECK((*tokens)[30] == "<s>");
  const auto types = file->integers("tokenizer.ggml.token_type");
  CHECK((*types)[27] == 1);
  CHECK((*types)[29] == 5);
  CHECK((*types)[30] == 3);
  CHECK((*types)[31] == 4);
  CHECK(*file->strings("tokenizer.ggml.merges") == std::vector<std::string_view>{"a b", "ab c"});
  CHECK(*file->u64("tokenizer.ggml.bos_token_id") == 30);
  CHECK(*file->u64("tokenizer.ggml.eos_token_id") == 31);
  CHECK(*file->boolean("tokenizer.ggml.add_bos_token"));
  CHECK(*file->string("tokenizer.chat_template") == "{{ messages }}");
}

TEST_CASE("pre-tokenizers are known by their expressions") {
  const auto pre_of = [](const Json& pre, bool whole_words) {
    Json tokenizer = small_tokenizer();
    tokenizer["pre_tokenizer"] = pre;
    tokenizer["model"]["ignore_merges"] = whole_words;
    NewMetadata out;
    const Status status = read_tokenizer_json(tokenizer, Json::object(), kVocabulary, out);
    return status ? out.bytes() : status.error().message;
  };
  const auto gpt4 = [](const std::string& digits) {
    const std::string regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" + digits +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    return Json{
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}}, {{"type", "ByteLevel"}, {"use_regex", false}}}}};
  };
  CHECK(contains(pre_of(gpt4("{1,3}"), true), "llama-bpe"));
  CHECK(contains(pre_of(gpt4("{1,3}"), false), "dbrx"));
  CHECK(contains(pre_of(gpt4(""), false), "qwen2"));
  const Json digits = {{"type", "Sequence"},
                       {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, {{"type", "ByteLevel"}}}}};
  CHECK(contains(pre_of(digits, false), "smollm"));
  CHECK(contains(pre_of(gpt4("{1,4}"), false), "pre-tokenizer is not known"));
  const auto of_splits = [](const std::vector<std::string>& regexes) {
    Json parts = Json::array();
    for (const std::string& regex : regexes) parts.push_back({{"type", "Split"}, {"pattern", {{"Regex", regex}}}});
    parts.push_back({{"type", "ByteLevel"}, {"use_regex", false}});
    return Json{{"type", "Sequence"}, {"pretokenizers", parts}};
  };
  const std::string ends = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(contains(pre_of(of_splits({R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                                   R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" +
                                   ends}),
                        false),
                 "qwen35"));
  CHECK(contains(
      pre_of(of_splits({R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
                        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                        R"(| ?[\p{P}\p{S}]+[\r\n]*)" +
                            ends}),
             false),
      "deepseek-v3"));
  const std::string contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
  const auto cased = [&](const std::string& behind, const std::string& digits) {
    return R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" + behind +
           R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" + behind + R"(|\p{N})" +
           digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + ends;
  };
  CHECK(contains(pre_of(of_splits({cased(contractions, "{1,3}")}), false), "gpt-4o"));
  CHECK(contains(pre_of(of_splits({cased("", "")}), true), "tekken"));
  CHECK(contains(pre_of(nullptr, false), "pre-tokenizer is not known"));
}

TEST_CASE("a tokenizer with bytes to fall back on is one of SentencePiece, with merges for scores") {
  Json tokenizer = small_tokenizer();
  tokenizer["model"] = {{"type", "BPE"},
                        {"byte_fallback", true},
                        {"unk_token", "<unk>"},
                        {"vocab", {{"<unk>", 0}, {"<0x0A>", 1}, {"a", 2}, {"\u2581", 3}, {"\u2581a", 4}, {"aa", 5}}},
                        {"merges", {"a a", {"\u2581", "a"}}}};
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}}}};
  for (const bool has_prefix : {true, false}) {
    if (!has_prefix) tokenizer["normalizer"] = {{"type", "Replace"}, {"content", "\u2581"}};
    const TempFolder folder;
    write_model_folder(folder.path(), SmallTransformer(kLlama).writer, small_config("llama"));
    write_text(folder.path() + "/tokenizer.json", as_read(tokenizer).dump());
    const auto file = open_model_files(folder.path());
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    CHECK(*file->string("tokenizer.ggml.model") == "llama");
    CHECK(*file->boolean("tokenizer.ggml.add_space_prefix") == has_prefix);
    CHECK(*file->u64("tokenizer.ggml.unknown_token_id") == 0);
    const auto types = *file->integers("tokenizer.ggml.token_type");
    CHECK(std::vector<int64_t>(types.begin(), types.begin() + 7) == std::vector<int64_t>{2, 6, 1, 1, 1, 1, 5});
    const auto scores = *file->floats("tokenizer.ggml.scores");
    CHECK(scores[5] > scores[4]);
    CHECK(scores[4] > scores[3]);
  }
}

TEST_CASE("numbers of models with windows are read in the forms that files have") {
  Json gemma = small_config("gemma3_text");
  gemma["sliding_window"] = 7;
  const auto keys_of = [](const Json& config) {
    NewMetadata out;
    const auto model = read_config(as_read(config), out);
    if (!model) return Json(model.error().message);
    out.number("tokenizer.none", 0);
    const NewHead head = new_head(out, {}, 32);
    const auto file = GgufFile::open_memory(std::as_bytes(std::span(head.bytes)));
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    return Json{{"window", file->u64("gemma3.attention.sliding_window").take()},
                {"period", file->u64("gemma3.attention.sliding_window_pattern").take()},
                {"base", file->f64("gemma3.rope.freq_base").take()},
                {"local", file->f64("gemma3.rope.freq_base_swa").take()}};
  };
  CHECK(keys_of(gemma) == Json{{"window", 7}, {"period", 6}, {"base", kBase}, {"local", 10000.0}});
  gemma["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  gemma["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 4000}}},
                              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300}}}};
  const Json wanted = {{"window", 7}, {"period", 2}, {"base", 4000.0}, {"local", 300.0}};
  CHECK(keys_of(gemma) == wanted);
  // Models that also see: the numbers of the part that writes are an object of their own, and may be left out.
  Json text = gemma;
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps"}) text.erase(key);
  CHECK(keys_of({{"model_type", "gemma3"}, {"text_config", text}, {"vision_config", Json::object()}}) == wanted);
  gemma["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  CHECK(contains(keys_of(gemma).dump(), "layer_types"));
  gemma["layer_types"] = nullptr;
  gemma["final_logit_softcapping"] = 30.0;
  CHECK(contains(keys_of(gemma).dump(), "final_logit_softcapping is not supported"));
}

TEST_CASE("experts that are missing or differ, and blocks without their scales, are named") {
  const auto error_of_tensors = [](const char* type, const std::vector<std::pair<std::string, Json>>& tensors) {
    const TempFolder folder;
    Json table = Json::object(), config = small_config(type);
    config.update(as_read({{"num_experts", 3},
                           {"num_local_experts", 3},
                           {"num_experts_per_tok", 1},
                           {"moe_intermediate_size", 4},
                           {"sliding_window", 4}}));
    for (const auto& [name, entry] : tensors) table["model.layers.0.mlp.experts." + name] = entry;
    write_text(folder.path() + "/config.json", config.dump());
    write_text(folder.path() + "/a.safetensors", safetensors_file(table, std::string(64, '\0')));
    return error_of(folder.path());
  };
  const auto entry = [](const char* dtype, const std::vector<int>& shape, int bytes) {
    return as_read({{"dtype", dtype}, {"shape", shape}, {"data_offsets", {0, bytes}}});
  };
  const Json matrix = entry("F32", {2, 2}, 16);
  CHECK(contains(error_of_tensors("qwen3_moe", {{"0.up_proj.weight", matrix}, {"2.up_proj.weight", matrix}}),
                 "ffn_up_exps.weight: expert 1 is missing"));
  CHECK(contains(
      error_of_tensors("qwen3_moe", {{"0.up_proj.weight", matrix}, {"1.up_proj.weight", entry("F32", {2, 4}, 32)}}),
      "experts.1.up_proj.weight: [2, 4] where another expert has [2, 2]"));
  CHECK(contains(error_of_tensors("qwen3_moe", {{"20000.up_proj.weight", matrix}}), "too many experts"));
  CHECK(contains(error_of_tensors("qwen3_moe", {{"0.up_proj.weight", entry("U8", {2, 2}, 4)}}), "do not go together"));
  CHECK(contains(error_of_tensors("gpt_oss", {{"down_proj_blocks", entry("U8", {1, 2, 1, 16}, 32)}}),
                 "do not go together"));
  CHECK(contains(error_of_tensors("gpt_oss", {{"gate_up_proj_blocks", entry("U8", {1, 3, 1, 16}, 48)},
                                              {"gate_up_proj_scales", entry("U8", {1, 3, 1}, 3)}}),
                 "3 rows of two kinds"));
  CHECK(contains(error_of_tensors("gpt_oss", {{"down_proj", entry("F32", {1, 2, 2}, 16)}}), "blocks of 4 bits"));
  CHECK(
      contains(error_of_tensors("gpt_oss", {{"gate_up_proj_bias", entry("F32", {1, 3}, 12)}}), "3 rows of two kinds"));
}

TEST_CASE("frequencies of Llama 3 are divided as its authors do") {
  Json config = small_config("llama");
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 64}};
  NewMetadata out;
  const auto model = read_config(config, out);
  REQUIRE(model.ok());
  const std::vector<float>& divisors = model->divisors.at("rope_freqs.weight");
  REQUIRE(divisors.size() == kWidth / 2);
  for (int i = 0; i < kWidth / 2; ++i) {
    // Wavelengths below 64 / 4 stay, those above 64 are 8 times as long.
    const double length = 2 * M_PI * std::pow(kBase, 2.0 * i / kWidth);
    const double smooth = (64 / length - 1) / 3, wanted = length < 16   ? 1
                                                          : length > 64 ? 8
                                                                        : 1 / ((1 - smooth) / 8 + smooth);
    CHECK(divisors[i] == doctest::Approx(wanted).epsilon(1e-5));
  }
  config["rope_scaling"]["factor"] = 0;
  CHECK(contains(read_config(config, out).error().message, "rope_scaling"));
}

TEST_CASE("what a folder lacks or what is not supported is said in a sentence") {
  CHECK(contains(error_with("model_type", "mamba"), "llama, mistral, qwen2, qwen3, qwen3_moe, "));
  CHECK(contains(error_with("hidden_size", nullptr), "hidden_size is missing"));
  CHECK(contains(error_with("num_hidden_layers", "two"), "num_hidden_layers is \"two\""));
  CHECK(contains(error_with("num_attention_heads", 0), "do not go together"));
  CHECK(contains(error_with("num_key_value_heads", 3), "self_attn.k_proj"));
  CHECK(contains(error_with("sliding_window", 16), "sliding_window"));
  CHECK(contains(error_with("rope_scaling", {{"rope_type", "dynamic"}}), "dynamic is not supported"));
  CHECK(contains(error_with("rope_scaling", {{"rope_type", "longrope"}}), "longrope is not supported"));

  const TempFolder folder;
  write_text(folder / "config.json", small_config("llama").dump());
  CHECK(contains(error_of(folder.path()), "no .safetensors file"));
  write_text(folder / "a.safetensors",
             safetensors_file({{"model.vision.weight", {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}}}},
                              "1234"));
  CHECK(contains(error_of(folder.path()), "model.vision.weight: this tensor is not known"));
  write_text(folder / "config.json", "{");
  CHECK(contains(error_of(folder.path()), "no JSON"));
}

TEST_CASE("numbers of a family that cannot be are named") {
  const auto error = [](const Traits& traits, const Json& more) {
    Json config = config_of(traits);
    if (!more.is_null()) config.update(as_read(more));
    NewMetadata out;
    const auto model = read_config(config, out);
    return model ? std::string() : model.error().message;
  };
  const Traits phi = {.architecture = "phi3"}, granite = {.architecture = "granite"},
               ministral = {.architecture = "mistral3"},
               next = {.architecture = "qwen3next", .rotated = kWidth / 4, .has_experts = true};
  const auto longrope = [](const Json& shorter, int original) {
    return Json{{"rope_scaling", {{"type", "longrope"}, {"short_factor", shorter}, {"long_factor", shorter}}},
                {"original_max_position_embeddings", original}};
  };
  const Json ones(std::vector<int>(kWidth / 2, 1));
  CHECK(error(phi, longrope(ones, 256)) == "");
  CHECK(contains(error(phi, longrope(ones, 1)), "original_max_position_embeddings is not above 1"));
  CHECK(contains(error(phi, longrope({1, 2}, 256)), "short_factor of rope_scaling is no list of 8 numbers"));
  CHECK(contains(error(phi, longrope("all", 256)), "short_factor of rope_scaling"));
  CHECK(contains(error(phi, longrope(std::vector<int>(kWidth / 2, 0), 256)), "numbers above 0"));
  CHECK(contains(error(granite, {{"position_embedding_type", "alibi"}}), "alibi is not supported"));
  CHECK(error(ministral, {}) == "");
  CHECK(contains(error(ministral, {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 16}, {"mscale", 0.5}}}}),
                 "mscale and mscale_all_dim"));
  CHECK(contains(
      error(ministral, {{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 16}, {"attention_factor", 3.0}}}}),
      "attention_factor"));
  CHECK(error(next, {}) == "");
  CHECK(contains(error(next, {{"linear_value_head_dim", 2 * kNetWidth}}), "linear_value_head_dim"));
  CHECK(contains(error(next, {{"linear_num_value_heads", 1 << 20}}), "linear_num_key_heads"));
  CHECK(contains(error(next, {{"linear_num_key_heads", 0}}), "linear_num_key_heads"));
  CHECK(contains(error(next, {{"linear_num_value_heads", kNetKeys + 1}}), "linear_num_key_heads"));
  CHECK(contains(error(next, {{"layer_types", {"full_attention", "linear_attention"}}}), "layer_types"));
  CHECK(contains(error(next, {{"mlp_only_layers", {0}}}), "mlp_only_layers"));
}

TEST_CASE("files of any depth and form are read without harm") {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const char* key : {"hidden_size", "rope_scaling", "sliding_window", "use_sliding_window", "model_type"}) {
    Json config = small_config("llama");
    config[key] = Json::parse(deep);
    NewMetadata out;
    const auto model = read_config(config, out);
    CHECK((model.ok() || model.error().message.starts_with("[safetensors] config.json: ")));
  }
  for (const char* key : {"pre_tokenizer", "post_processor", "added_tokens", "model"}) {
    Json tokenizer = small_tokenizer();
    tokenizer[key] = Json::parse(deep);
    NewMetadata out;
    const Status status = read_tokenizer_json(tokenizer, Json::object(), kVocabulary, out);
    CHECK((status.ok() || status.error().message.starts_with("[safetensors] tokenizer.json: ")));
  }
  Json outside = small_tokenizer();
  outside["model"]["vocab"]["far"] = uint64_t{kVocabulary};
  NewMetadata out;
  CHECK(contains(read_tokenizer_json(outside, Json::object(), kVocabulary, out).error().message, "the id of far"));
}

TEST_CASE("tables of tensors that cannot be are refused") {
  const auto error = [](const std::string& file) {
    const auto table = read_tensor_table(std::as_bytes(std::span(file)), "f");
    return table ? std::string() : table.error().message;
  };
  const auto of = [&](const Json& entry) { return error(safetensors_file({{"x", entry}}, "12345678")); };
  CHECK(of({{"dtype", "F32"}, {"shape", {2, 1}}, {"data_offsets", {0, 8}}}) == "");
  CHECK(contains(of({{"dtype", "I8"}, {"shape", {8}}, {"data_offsets", {0, 8}}}), "dtype I8"));
  CHECK(of({{"dtype", "U8"}, {"shape", {8}}, {"data_offsets", {0, 8}}}) == "");
  for (const Json& bad :
       {Json(1), Json{{"dtype", "F32"}}, Json{{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {0, 4}}},
        Json{{"dtype", "F32"}, {"shape", {3}}, {"data_offsets", {0, 12}}},
        Json{{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {8, 0}}},
        Json{{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}},
        Json{{"dtype", "F32"}, {"shape", {-2}}, {"data_offsets", {0, 8}}},
        Json{{"dtype", "F32"}, {"shape", {1ull << 62, 4}}, {"data_offsets", {0, 0}}},
        Json{{"dtype", "F32"}, {"shape", Json::array()}, {"data_offsets", {0, 4}}},
        Json{{"dtype", "F32"}, {"shape", {1, 1, 1, 1, 2}}, {"data_offsets", {0, 8}}}}) {
    CAPTURE(bad.dump());
    CHECK(of(bad).starts_with("[safetensors] x: "));
  }
  const std::string good =
      safetensors_file({{"x", {{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {0, 8}}}}}, "12345678");
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    CHECK(error(good.substr(0, bytes)).starts_with("[safetensors] "));
}
