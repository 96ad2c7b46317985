// The views of a recording as text, for terminals.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

struct PrintOptions {
  std::string view;    // "model", "rewrites", "schedule", "kernel", "timeline", "search" or "compare"
  std::string kernel;  // only those with this in their names
  size_t top = 20;     // rows of a table; 0: all
};

// An Error where the recordings lack what the view shows. REQUIRES: check_recording() has nothing against them; there
// is one, or there are two.
Result<std::string> print_view(const std::vector<nlohmann::ordered_json>& recordings, const PrintOptions& options);

}  // namespace smelt
