// The tokens that no repetition goes across (DryOptions::breaks), from texts.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace smelt {

// What llama.cpp takes where nothing is said.
const std::vector<std::string>& usual_dry_breakers();

// Every token that has one of the texts in it, ascending. A text that is longer than a token is in none.
std::vector<int32_t> dry_breaks(const Tokenizer& tokenizer, const std::vector<std::string>& breakers);

}  // namespace smelt
