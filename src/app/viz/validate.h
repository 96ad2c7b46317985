// Whether a document is a recording: nothing behind this checks it again. The format is in docs/visualiser.md.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace smelt {

constexpr int kRecordingFormat = 1;

// An Error names the first thing that is wrong and where it is: "kernels[3].tree: 70 is no node; there are 12".
Status check_recording(const nlohmann::ordered_json& recording);

}  // namespace smelt
