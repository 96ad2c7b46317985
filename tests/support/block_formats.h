// The block formats that the program computes with.
#pragma once

#include <vector>

#include "gguf/types.h"

namespace smelt::testing {

inline std::vector<GgufType> block_formats() {
  std::vector<GgufType> types;
  for (uint32_t id = 0; id < 256; ++id)
    if (const GgufTypeInfo* info = find_type(id); info && info->supported && info->elements > 1)
      types.push_back(info->type);
  return types;
}

}  // namespace smelt::testing
