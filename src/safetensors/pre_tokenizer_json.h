// Where words end, as tokenizer.json says it, by the name that GGUF files have for it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace smelt {

// An Error names an expression that no known pre-tokenizer has. `tokenizer`: of BPE over bytes.
Result<std::string> pre_tokenizer_name(const nlohmann::json& tokenizer);

}  // namespace smelt
