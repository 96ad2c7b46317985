// Models of random weights as GGUF files, for programs that are to be measured beside this one.
#pragma once

#include <string>

#include "base/result.h"

namespace smelt {

// Writes the model SHAPE:MIX:LAYERS (synthetic_shapes.h) to `path`, with a progress bar; gives the exit code. The file
// has a tokenizer (synthetic_vocabulary.h), so that servers take it, too.
Result<int> write_synthetic(const std::string& name, const std::string& path);

}  // namespace smelt
