#include "safetensors/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "safetensors/json_parts.h"
#include "safetensors/pre_tokenizer_json.h"
#include "safetensors/tensor_table.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5,
                   kByte = 6;  // tokenizer.ggml.token_type

Error tokenizer_error(const std::string& what) { return safetensors_error("tokenizer.json", what); }

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::map<std::string, uint32_t> ids;      // of the vocabulary
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
  for (const auto& [text, id] : vocabulary.items()) {
    if (!tokens.put(id, text, kNormal)) return outside(text);
    tokens.ids[text] = id.get<uint32_t>();
  }
  for (const Json& added : at_or_null(tokenizer, "added_tokens")) {
    const std::string text = text_of(at_or_null(added, "content"));
    const Json& id = at_or_null(added, "id");
    if (!tokens.put(id, text, at_or_null(added, "special") == true ? kControl : kUserDefined)) return outside(text);
    tokens.special[text] = id.get<uint32_t>();
  }
  return tokens;
}

// "a b", or ["a", "b"] in newer files.
using Merge = std::pair<std::string, std::string>;
Result<std::vector<Merge>> read_merges(const Json& tokenizer) {
  std::vector<Merge> merges;
  for (const Json& merge : at_or_null(at_or_null(tokenizer, "model"), "merges")) {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    const std::string text = text_of(merge);
    const size_t space = text.find(' ', 1);  // a token may be one
    if (!is_pair && space == std::string::npos)
      return tokenizer_error("merge " + std::to_string(merges.size()) + " is none");
    if (is_pair)
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    else
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
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
  return json.is_structured() && depth <= kDeepestPart &&
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

// --- BPE over bytes

Status write_byte_level(const Json& tokenizer, const Tokens& tokens, NewMetadata& out) {
  SMELT_TRY(pre, pre_tokenizer_name(tokenizer));
  SMELT_TRY(merges, read_merges(tokenizer));
  std::vector<std::string> texts;
  for (const Merge& merge : merges) texts.push_back(merge.first + " " + merge.second);
  out.text("tokenizer.ggml.model", "gpt2");
  out.text("tokenizer.ggml.pre", pre);
  out.texts("tokenizer.ggml.tokens", tokens.texts);
  out.numbers("tokenizer.ggml.token_type", tokens.types);
  out.texts("tokenizer.ggml.merges", texts);
  return {};
}

// --- BPE over characters, which SentencePiece has made

constexpr const char* kSpace = "\xE2\x96\x81";  // U+2581

// Whether a text gets a space put before it. Parts of a normalizer, or of a pre-tokenizer, say so.
bool puts_space_before(const Json& part, int depth = 0) {
  if (depth > kDeepestPart) return false;
  for (const char* list : {"normalizers", "pretokenizers"})
    for (const Json& inner : at_or_null(part, list))
      if (puts_space_before(inner, depth + 1)) return true;
  const std::string type = text_of(at_or_null(part, "type"));
  if (type == "Prepend") return text_of(at_or_null(part, "prepend")) == kSpace;
  if (type != "Metaspace") return false;
  const Json& scheme = at_or_null(part, "prepend_scheme");
  return scheme.is_string() ? scheme != "never" : at_or_null(part, "add_prefix_space") != false;
}

// Of two neighbours those merge first whose token has the highest score: that of its first merge.
Result<std::vector<float>> scores_of(const Json& tokenizer, const Tokens& tokens) {
  SMELT_TRY(merges, read_merges(tokenizer));
  std::vector<float> scores(tokens.texts.size(), -static_cast<float>(merges.size()));
  for (size_t i = merges.size(); i-- > 0;)
    if (const auto token = tokens.ids.find(merges[i].first + merges[i].second); token != tokens.ids.end())
      scores[token->second] = -static_cast<float>(i);
  return scores;
}

bool is_byte(const std::string& text) { return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>'); }

Status write_sentencepiece(const Json& tokenizer, Tokens tokens, NewMetadata& out) {
  SMELT_TRY(scores, scores_of(tokenizer, tokens));
  const std::string unknown = text_of(at_or_null(at_or_null(tokenizer, "model"), "unk_token"));
  for (size_t i = 0; i < tokens.texts.size(); ++i)
    if (is_byte(tokens.texts[i])) tokens.types[i] = kByte;
  if (const auto id = tokens.ids.find(unknown); id != tokens.ids.end()) {
    tokens.types[id->second] = kUnknown;
    out.number("tokenizer.ggml.unknown_token_id", id->second);
  }
  out.text("tokenizer.ggml.model", "llama");
  out.texts("tokenizer.ggml.tokens", tokens.texts);
  out.numbers("tokenizer.ggml.token_type", tokens.types);
  out.reals("tokenizer.ggml.scores", scores);
  out.flag("tokenizer.ggml.add_space_prefix", puts_space_before(at_or_null(tokenizer, "normalizer")) ||
                                                  puts_space_before(at_or_null(tokenizer, "pre_tokenizer")));
  out.flag("tokenizer.ggml.remove_extra_whitespaces", false);
  return {};
}

}  // namespace

Status read_tokenizer_json(const Json& tokenizer, const Json& config, uint64_t count, NewMetadata& out) {
  const Json& model = at_or_null(tokenizer, "model");
  if (text_of(at_or_null(model, "type")) != "BPE")
    return tokenizer_error("its model is no BPE; convert the model to a GGUF file");
  SMELT_TRY(tokens, read_tokens(tokenizer, count));
  const bool is_over_bytes = at_or_null(model, "byte_fallback") != true;
  SMELT_CHECK(is_over_bytes ? write_byte_level(tokenizer, tokens, out) : write_sentencepiece(tokenizer, tokens, out));
  write_special(tokenizer, config, tokens, out);
  return {};
}

}  // namespace smelt
