// `smelt pull`, and what else fetches a model: with a bar for each file.
#pragma once

#include <string>

#include "hub/pull.h"

namespace smelt {

// Ctrl-C ends it; what was fetched stays for the next time.
Result<PulledModel> pull_with_progress(const std::string& name, PullOptions options);

}  // namespace smelt
