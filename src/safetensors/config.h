// The numbers of a Hugging Face model, config.json, as the keys that a GGUF file has for them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/head.h"

namespace smelt {

struct HubConfig {
  std::string architecture;  // as GGUF files name it
  int64_t heads = 0, kv_heads = 0;
  // Files of llama have the two values of a pair that rotates side by side; hub folders a half of a head apart.
  bool swaps_pairs = false;
  std::vector<float> divisors = {};  // of the frequencies of Llama 3; empty: none
};

// Writes the keys of the model to `out`. An Error names what in `config` is missing or not supported.
Result<HubConfig> read_config(const nlohmann::json& config, NewMetadata& out);

}  // namespace smelt
