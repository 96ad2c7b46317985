// Whether a document is a recording: nothing behind this checks it again. The format is in docs/visualiser.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace smelt {

constexpr int kRecordingFormat = 1;

// An Error names the first thing that is wrong and where it is: "kernels[3].tree: 70 is no node; there are 12".
Status check_recording(const nlohmann::ordered_json& recording);

// A recording of a file, or a saved profile (`smelt profile --json`) as the part of a recording that it is. An Error
// names the file.
Result<nlohmann::ordered_json> load_recording(const std::string& path);

}  // namespace smelt
