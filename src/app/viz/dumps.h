// Kernels that DUMP=dir left behind, as a recording: all that can be seen of them without a model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace smelt {

bool is_dump(const std::string& path);  // a folder, or a file that ends in .ir

// `machine`: by name, what the kernels are made for. An Error names the file, or says that a folder has none.
Result<nlohmann::ordered_json> recording_of_dump(const std::string& path, const std::string& machine);

}  // namespace smelt
