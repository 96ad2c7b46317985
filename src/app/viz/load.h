// What `smelt viz FILE ...` opens, as recordings.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

// Without nodes, kernels, segments and plans.
nlohmann::ordered_json empty_recording(nlohmann::ordered_json name, nlohmann::ordered_json device,
                                       nlohmann::ordered_json machine, nlohmann::ordered_json threads);

// A recording, or what becomes one: a profile (`smelt profile --json`), a timeline (`--trace`), what a tune has tried
// (`smelt tune --json`), kernels that DUMP=dir left behind, as `machine` would get them. An Error names the file.
Result<nlohmann::ordered_json> load_recording(const std::string& path, const std::string& machine = "host");

// One, or two to be compared. What a tune has tried goes into the recordings beside it. An Error where there are more.
Result<std::vector<nlohmann::ordered_json>> load_recordings(const std::vector<std::string>& paths,
                                                            const std::string& machine = "host");

}  // namespace smelt
