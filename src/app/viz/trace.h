// A timeline in Chrome's trace format, such as `smelt profile --trace` writes, as a recording.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace smelt {

bool is_trace(const nlohmann::ordered_json& json);

// Events with a duration, a track for each thread. An Error says what is wrong; sizes are left to check_recording().
Result<nlohmann::ordered_json> recording_of_trace(const nlohmann::ordered_json& json);

}  // namespace smelt
