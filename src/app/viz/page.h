// The page that shows recordings: one HTML file without any external load. tools/bundle_page makes it of the files of
// src/app/viz/page when the program is built.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace smelt {

// One recording, or two to be compared. `token`: what the page may ask its server with (live.h); empty: it asks
// nothing. REQUIRES: check_recording() has nothing against them.
std::string page_with(const std::vector<nlohmann::ordered_json>& recordings, const std::string& token = {});

}  // namespace smelt
