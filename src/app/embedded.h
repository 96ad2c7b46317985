// The model that is part of the program: tiny-glm, trained on short stories (models/README.md). `-m` defaults to it.
#pragma once

#include <cstddef>
#include <span>

namespace smelt {

// The bytes of a whole GGUF file, 64-byte aligned, alive as long as the process.
std::span<const std::byte> embedded_model();

}  // namespace smelt
