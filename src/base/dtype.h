// Element types. One enumerator a line in dtypes.def; everything else here is a lookup in that table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace smelt {

enum class DType : uint8_t {
#define DTYPE(name, text, bytes, kind) name,
#include "base/dtypes.def"
#undef DTYPE
};

std::string_view name_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view text);
int size_of(DType dtype);  // bytes an element takes in memory
bool is_float(DType dtype);
bool is_int(DType dtype);  // signed or unsigned, not Bool
bool is_signed_int(DType dtype);

}  // namespace smelt
