// The tokenizer of a Hugging Face model, tokenizer.json, as the keys that a GGUF file has for it: BPE over bytes, with
// a pre-tokenizer that smelt knows, or BPE over characters that falls back to bytes, as SentencePiece makes it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gguf/head.h"

namespace smelt {

// `config`: of tokenizer_config.json, which names the special tokens and may have the template of chats; or empty.
// `tokens`: rows of the embedding; ids that no token has are filled up. Writes the keys to `out`.
Status read_tokenizer_json(const nlohmann::json& tokenizer, const nlohmann::json& config, uint64_t tokens,
                           NewMetadata& out);

}  // namespace smelt
