#include "safetensors/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "safetensors/tensor_table.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;  // tokenizer.ggml.token_type

Error tokenizer_error(const std::string& what) { return safetensors_error("tokenizer.json", what); }

const Json& at_or_null(const Json& json, const char* key) {
  static const Json null;
  return json.is_object() && json.contains(key) ? json.at(key) : null;
}

std::string text_of(const Json& json) { return json.is_string() ? json.get<std::string>() : std::string(); }

// --- the pre-tokenizer

// What the parts of a pre-tokenizer say of where words end.
struct Split {
  std::string regex;            // of the first part that has one
  bool has_digits = false;      // a part that takes digits one by one
  bool is_byte_level = false;   // bytes become letters
  bool has_gpt2_words = false;  // and words are cut as GPT-2's
};

constexpr int kDeepest = 8;  // parts within parts

void look_at(const Json& part, Split& split, int depth = 0) {
  if (depth > kDeepest) return;
  const std::string type = text_of(at_or_null(part, "type"));
  for (const Json& inner : at_or_null(part, "pretokenizers")) look_at(inner, split, depth + 1);
  if (type == "Digits") split.has_digits = at_or_null(part, "individual_digits") == true;
  if (type == "Split" && split.regex.empty()) split.regex = text_of(at_or_null(at_or_null(part, "pattern"), "Regex"));
  if (type == "ByteLevel") {
    split.is_byte_level = true;
    split.has_gpt2_words = at_or_null(part, "use_regex") != false;
  }
}

// The words of Llama 3 and of Qwen 2, which differ in how many digits stay together.
std::string gpt4_regex(const std::string& digits) {
  return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" + digits +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

// As GGUF files name it.
Result<std::string> pre_tokenizer(const Json& tokenizer) {
  Split split;
  look_at(at_or_null(tokenizer, "pre_tokenizer"), split);
  const bool whole_words = at_or_null(at_or_null(tokenizer, "model"), "ignore_merges") == true;
  if (split.is_byte_level && split.regex == gpt4_regex("{1,3}")) return std::string(whole_words ? "llama-bpe" : "dbrx");
  if (split.is_byte_level && split.regex == gpt4_regex("")) return std::string("qwen2");
  if (split.is_byte_level && split.regex.empty() && split.has_gpt2_words)
    return std::string(split.has_digits ? "smollm" : "gpt-2");
  return tokenizer_error("its pre-tokenizer is not known" +
                         (split.regex.empty() ? std::string() : ": " + printable(split.regex.substr(0, 80))) +
                         "; those of GPT-2, Llama 3, Qwen 2 and SmolLM are. Convert the model to a GGUF file");
}

// --- tokens

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::map<std::string, uint32_t> special;  // added ones

  bool put(const Json& id, const std::string& text, uint32_t type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= texts.size()) return false;
    texts[id.get<size_t>()] = text;
    types[id.get<size_t>()] = static_cast<int32_t>(type);
    return true;
  }
};

Result<Tokens> read_tokens(const Json& tokenizer, uint64_t count) {
  Tokens tokens;
  for (uint64_t i = 0; i < count; ++i) tokens.texts.push_back("[PAD" + std::to_string(i) + "]");
  tokens.types.assign(count, kUnused);
  const Json& vocabulary = at_or_null(at_or_null(tokenizer, "model"), "vocab");
  if (!vocabulary.is_object() || vocabulary.empty()) return tokenizer_error("its model has no vocab");
  const auto outside = [&](const std::string& text) {
    return tokenizer_error("the id of " + printable(text.substr(0, 40)) + " is none of the " + std::to_string(count) +
                           " rows of the embedding");
  };
  for (const auto& [text, id] : vocabulary.items())
    if (!tokens.put(id, text, kNormal)) return outside(text);
  for (const Json& added : at_or_null(tokenizer, "added_tokens")) {
    const std::string text = text_of(at_or_null(added, "content"));
    const Json& id = at_or_null(added, "id");
    if (!tokens.put(id, text, at_or_null(added, "special") == true ? kControl : kUserDefined)) return outside(text);
    tokens.special[text] = id.get<uint32_t>();
  }
  return tokens;
}

// "a b", or ["a", "b"] in newer files.
Result<std::vector<std::string>> read_merges(const Json& tokenizer) {
  std::vector<std::string> merges;
  for (const Json& merge : at_or_null(at_or_null(tokenizer, "model"), "merges")) {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!is_pair && !merge.is_string()) return tokenizer_error("merge " + std::to_string(merges.size()) + " is none");
    merges.push_back(is_pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                             : merge.get<std::string>());
  }
  return merges;
}

// A token by its name, which may be a text or an object with it.
std::optional<uint32_t> special_token(const Json& config, const char* name, const Tokens& tokens) {
  const Json& value = at_or_null(config, name);
  const auto found = tokens.special.find(text_of(value.is_object() ? at_or_null(value, "content") : value));
  return found == tokens.special.end() ? std::nullopt : std::optional(found->second);
}

// Whether a text is somewhere in it, as a value.
bool mentions(const Json& json, const std::string& text, int depth = 0) {
  if (json.is_string()) return json.get_ref<const std::string&>() == text;
  return json.is_structured() && depth <= kDeepest &&
         std::any_of(json.begin(), json.end(), [&](const Json& inner) { return mentions(inner, text, depth + 1); });
}

void write_special(const Json& tokenizer, const Json& config, const Tokens& tokens, NewMetadata& out) {
  const std::pair<const char*, const char*> names[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                       {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                       {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : names)
    if (const auto id = special_token(config, name, tokens)) out.number(key, *id);
  // Texts begin with what the post-processor puts in front of them.
  bool adds_bos = at_or_null(config, "add_bos_token") == true;
  const auto bos = special_token(config, "bos_token", tokens);
  for (const auto& [text, id] : tokens.special)
    if (bos == id && mentions(at_or_null(tokenizer, "post_processor"), text)) adds_bos = true;
  out.flag("tokenizer.ggml.add_bos_token", adds_bos);
  if (const std::string chat = text_of(at_or_null(config, "chat_template")); !chat.empty())
    out.text("tokenizer.chat_template", chat);
}

}  // namespace

Status read_tokenizer_json(const Json& tokenizer, const Json& config, uint64_t count, NewMetadata& out) {
  const Json& model = at_or_null(tokenizer, "model");
  if (text_of(at_or_null(model, "type")) != "BPE" || at_or_null(model, "byte_fallback") == true)
    return tokenizer_error("its model is no BPE over bytes; convert the model to a GGUF file");
  SMELT_TRY(pre, pre_tokenizer(tokenizer));
  SMELT_TRY(tokens, read_tokens(tokenizer, count));
  SMELT_TRY(merges, read_merges(tokenizer));
  out.text("tokenizer.ggml.model", "gpt2");
  out.text("tokenizer.ggml.pre", pre);
  out.texts("tokenizer.ggml.tokens", tokens.texts);
  out.numbers("tokenizer.ggml.token_type", tokens.types);
  out.texts("tokenizer.ggml.merges", merges);
  write_special(tokenizer, config, tokens, out);
  return {};
}

}  // namespace smelt
