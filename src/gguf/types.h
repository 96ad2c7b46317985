// Tensor types of GGUF files, from types.def. What the bytes of a block mean is in gguf/quants.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace smelt {

enum class GgufType : uint32_t {
#define GGUF_TYPE(id, name, elements, bytes, support) name = id,
#include "gguf/types.def"
#undef GGUF_TYPE
};

struct GgufTypeInfo {
  GgufType type;
  std::string_view name;  // "Q4_K"
  uint32_t elements;      // values in a block
  uint32_t bytes;         // bytes of a block
  bool supported;         // smelt computes with it
};

const GgufTypeInfo* find_type(uint32_t id);  // null: not a type of the format
const GgufTypeInfo& info_of(GgufType type);
std::string_view name_of(GgufType type);
std::optional<GgufType> gguf_type_from_name(std::string_view name);

}  // namespace smelt
