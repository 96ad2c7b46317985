#include "safetensors/pre_tokenizer_json.h"

#include <vector>

#include "base/printable.h"
#include "safetensors/json_parts.h"
#include "safetensors/tensor_table.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

// What the parts of a pre-tokenizer say of where words end.
struct Split {
  std::vector<std::string> regexes;  // of its parts, in their order
  bool has_digits = false;           // a part that takes digits one by one
  bool is_byte_level = false;        // bytes become letters
  bool has_gpt2_words = false;       // and words are cut as GPT-2's
};

void look_at(const Json& part, Split& split, int depth = 0) {
  if (depth > kDeepestPart) return;
  const std::string type = text_of(at_or_null(part, "type"));
  for (const Json& inner : at_or_null(part, "pretokenizers")) look_at(inner, split, depth + 1);
  if (type == "Digits") split.has_digits = at_or_null(part, "individual_digits") == true;
  if (type == "Split") split.regexes.push_back(text_of(at_or_null(at_or_null(part, "pattern"), "Regex")));
  if (type == "ByteLevel") {
    split.is_byte_level = true;
    split.has_gpt2_words = at_or_null(part, "use_regex") != false;
  }
}

const std::string kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))", kEnds = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The words of Llama 3, GLM 4 and Qwen 2, which differ in how many digits stay together.
std::string gpt4_regex(const std::string& digits) {
  return kContractions + R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)" + kEnds;
}

const std::string kQwen35 =
    kContractions + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" + kEnds;

// Those of GPT-4o and Tekken, whose words end before a capital letter.
std::string cased_regex(const std::string& behind_words, const std::string& digits) {
  const std::string lead = R"([^\r\n\p{L}\p{N}]?)", upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
                    lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
  return lead + upper + "*" + lower + "+" + behind_words + "|" + lead + upper + "+" + lower + "*" + behind_words +
         R"(|\p{N})" + digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)" + kEnds;
}

const std::vector<std::string> kDeepseekV3 = {
    R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" +
        kEnds};

// `whole_words`: a word that is a token is not cut further.
const char* name_of(const std::vector<std::string>& regexes, bool whole_words, bool is_glm) {
  if (regexes == kDeepseekV3) return "deepseek-v3";
  if (regexes.size() != 1) return nullptr;
  const std::string& regex = regexes.front();
  if (regex == gpt4_regex("{1,3}")) return whole_words ? "llama-bpe" : is_glm ? "glm4" : "dbrx";
  if (regex == gpt4_regex("")) return "qwen2";
  if (regex == kQwen35) return "qwen35";
  if (regex == cased_regex(kContractions + "?", "{1,3}")) return "gpt-4o";
  if (regex == cased_regex("", "")) return "tekken";
  return nullptr;
}

// One way to write the contractions for another.
std::string with_usual_contractions(std::string regex) {
  const std::string other = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
  if (regex.starts_with(other)) regex.replace(0, other.size(), kContractions);
  return regex;
}

bool has_token(const Json& tokenizer, const char* text) {
  for (const Json& added : at_or_null(tokenizer, "added_tokens"))
    if (text_of(at_or_null(added, "content")) == text) return true;
  return false;
}

}  // namespace

Result<std::string> pre_tokenizer_name(const Json& tokenizer) {
  Split split;
  look_at(at_or_null(tokenizer, "pre_tokenizer"), split);
  for (std::string& regex : split.regexes) regex = with_usual_contractions(std::move(regex));
  const bool whole_words = at_or_null(at_or_null(tokenizer, "model"), "ignore_merges") == true;
  if (split.is_byte_level && split.regexes.empty() && split.has_gpt2_words)
    return std::string(split.has_digits ? "smollm" : "gpt-2");
  const char* name = name_of(split.regexes, whole_words, has_token(tokenizer, "[gMASK]"));
  if (split.is_byte_level && name) return std::string(name);
  return safetensors_error(
      "tokenizer.json",
      "its pre-tokenizer is not known" +
          (split.regexes.empty() ? std::string() : ": " + printable(split.regexes.front().substr(0, 80))) +
          "; those of DeepSeek V3, GLM 4, GPT-2, GPT-4o, Llama 3, Qwen 2 and 3.5, SmolLM and Tekken are. Convert the "
          "model to a GGUF file");
}

}  // namespace smelt
