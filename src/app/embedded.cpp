#include "app/embedded.h"

extern "C" const std::byte smelt_embedded_model_begin[];
extern "C" const std::byte smelt_embedded_model_end[];

namespace smelt {

std::span<const std::byte> embedded_model() { return {smelt_embedded_model_begin, smelt_embedded_model_end}; }

}  // namespace smelt
