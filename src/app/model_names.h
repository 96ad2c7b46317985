// Models by name: wherever a command takes a file it takes the name of a model on this machine, too.
#pragma once

#include <string>

#include "base/result.h"

namespace smelt {

// A file, or the name of a model that was pulled, or one that could be: "user/repo:Q4_K_M".
bool names_a_model(const std::string& word);

// In front of a name: the model is asked for, and fetched if it is not there (--hf).
constexpr const char* kFetch = "fetch:";

// The file of what a user wrote after -m: a path, or the name of a model that was pulled. Fetches nothing without
// kFetch: an Error says what to pull.
Result<std::string> model_path(const std::string& name);

}  // namespace smelt
