// The files that a command reads: none of them may be the one that it writes, which would take its place.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

// Every shard of a model; of a folder also what says how its tensors are read.
std::vector<std::string> files_of(const GgufFile& model);

// An Error if `output` is one of them, by the same name, another one or a link. `where`: "quantize".
Status check_is_no_source(const std::string& where, const std::string& output, const std::vector<std::string>& sources);

}  // namespace smelt
