// The numbers of a Hugging Face model, config.json, as the keys that a GGUF file has for them.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/head.h"
#include "safetensors/family.h"
#include "safetensors/tensor_rows.h"

namespace smelt {

// What of the numbers decides where rows of tensors go.
struct HubConfig {
  const HubFamily* family = nullptr;
  int64_t heads = 0, kv_heads = 0;
  int64_t nope = 0, v_head = 0;  // of latent attention: widths of a head's query without position, and of its value
  NetHeads net = {};             // of delta nets
  // Of frequencies, by the tensor that has them in GGUF files.
  std::map<std::string, std::vector<float>> divisors = {};
};

// Writes the keys of the model to `out`. An Error names what in `config` is missing or not supported.
Result<HubConfig> read_config(const nlohmann::json& config, NewMetadata& out);

}  // namespace smelt
