// The page that shows recordings: one HTML file without any external load. tools/bundle_page makes it of the files of
// src/app/viz/page when the program is built.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace smelt {

// One recording, or two to be compared. REQUIRES: check_recording() has nothing against them.
std::string page_with(const std::vector<nlohmann::ordered_json>& recordings);

}  // namespace smelt
