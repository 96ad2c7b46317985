// Bringing a model file into memory before the first token, so that reading it is seen as loading and not as a slow
// start.
#pragma once

#include "engine/load_options.h"
#include "gguf/gguf.h"

namespace smelt {

// Maps every page of the file in, reading it from disk where it is not in memory yet. Stops at nothing: where the
// system cannot do it, or the file is larger than the memory that is free for it, pages come in as they are touched.
void prefault(const GgufFile& file, const LoadOptions& options);

}  // namespace smelt
