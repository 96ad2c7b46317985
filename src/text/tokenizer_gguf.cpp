// TokenizerData from the keys of a GGUF file.
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace smelt {
namespace {

std::string key(const char* name) { return std::string("tokenizer.ggml.") + name; }

Result<std::vector<std::string>> read_texts(const GgufFile& file, const char* name) {
  SMELT_TRY(views, file.strings(key(name)));
  return std::vector<std::string>(views.begin(), views.end());
}

Result<std::vector<int64_t>> read_optional_integers(const GgufFile& file, const char* name) {
  if (!file.has(key(name))) return std::vector<int64_t>();
  return file.integers(key(name));
}

Result<std::optional<bool>> read_optional_flag(const GgufFile& file, const char* name) {
  if (!file.has(key(name))) return std::optional<bool>();
  SMELT_TRY(flag, file.boolean(key(name)));
  return std::optional(flag);
}

// What SentencePiece's vocabularies say besides.
Status read_sentencepiece(const GgufFile& file, TokenizerData& data) {
  SMELT_TRY(scores, file.floats(key("scores")));
  SMELT_TRY(prefix, read_optional_flag(file, "add_space_prefix"));
  SMELT_TRY(squeeze, read_optional_flag(file, "remove_extra_whitespaces"));
  SMELT_TRY(charsmap, read_optional_integers(file, "precompiled_charsmap"));
  data.scores = std::move(scores);
  data.charsmap.assign(charsmap.begin(), charsmap.end());
  data.add_space_prefix = prefix;
  data.remove_extra_whitespaces = squeeze;
  return {};
}

Result<std::optional<int64_t>> read_optional_id(const GgufFile& file, const char* name) {
  if (!file.has(key(name))) return std::optional<int64_t>();
  SMELT_TRY(id, file.i64(key(name)));
  return std::optional(id);
}

Status read_ids(const GgufFile& file, TokenizerData& data) {
  const std::pair<const char*, std::optional<int64_t>*> ids[] = {
      {"bos_token_id", &data.bos}, {"eos_token_id", &data.eos},         {"eot_token_id", &data.eot},
      {"eom_token_id", &data.eom}, {"unknown_token_id", &data.unknown}, {"padding_token_id", &data.padding},
  };
  for (auto [name, target] : ids) {
    SMELT_TRY(id, read_optional_id(file, name));
    *target = id;
  }
  SMELT_TRY(more_eos, read_optional_integers(file, "eos_token_ids"));
  SMELT_TRY(add_bos, read_optional_flag(file, "add_bos_token"));
  SMELT_TRY(add_eos, read_optional_flag(file, "add_eos_token"));
  data.more_eos = std::move(more_eos);
  data.add_bos = add_bos;
  data.add_eos = add_eos;
  return {};
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const GgufFile& file) {
  TokenizerData data;
  SMELT_TRY(model, file.string(key("model")));
  SMELT_TRY(pre, file.string_or(key("pre"), "default"));
  data.model = model;
  data.pre = pre;
  // What other kinds of tokenizers lack is not what the user should hear: that they are of another kind is.
  const bool is_sentencepiece = data.model == "llama" || data.model == "t5";
  if (data.model != "gpt2" && !is_sentencepiece) return from_data(std::move(data));
  SMELT_TRY(tokens, read_texts(file, "tokens"));
  SMELT_TRY(types, read_optional_integers(file, "token_type"));
  data.tokens = std::move(tokens);
  if (is_sentencepiece) {
    SMELT_CHECK(read_sentencepiece(file, data));
  } else {
    SMELT_TRY(merges, read_texts(file, "merges"));
    data.merges = std::move(merges);
  }
  data.types.assign(types.begin(), types.end());
  SMELT_CHECK(read_ids(file, data));
  return from_data(std::move(data));
}

}  // namespace smelt
