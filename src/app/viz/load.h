// What `smelt viz FILE ...` opens, as recordings.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

// A recording, or what becomes part of one: a profile (`smelt profile --json`), what a tune has tried (`smelt tune
// --json`). An Error names the file.
Result<nlohmann::ordered_json> load_recording(const std::string& path);

// One, or two to be compared. What a tune has tried goes into the recordings beside it. An Error where there are more.
Result<std::vector<nlohmann::ordered_json>> load_recordings(const std::vector<std::string>& paths);

}  // namespace smelt
