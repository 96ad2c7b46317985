// Mixes of types, as quantisers have them: one type for most matrices, better ones for those that need them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/types.h"

namespace smelt {

struct TypeMix {
  std::string_view name;    // "Q4_K_M"
  uint32_t file_type;       // as general.file_type has it
  GgufType base;            // of most matrices
  bool is_uniform = false;  // of all
};
const std::vector<TypeMix>& type_mixes();
std::optional<TypeMix> find_mix(std::string_view name);  // in capitals

// The type of a matrix, by its name without "blk.N." and ".weight". layer: -1 for those of no layer.
GgufType type_in_mix(const TypeMix& mix, std::string_view name, int64_t layer, int64_t layers);

// The type to take where rows of k elements are not whole blocks of `type`.
GgufType that_fits(GgufType type, int64_t k);

}  // namespace smelt
