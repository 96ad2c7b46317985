// Element types. One enumerator a line in dtypes.def; everything else here is a lookup in that table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace smelt {

enum class DType : uint8_t {
#define DTYPE(name, text, bytes, kind) name,
#include "base/dtypes.def"
#undef DTYPE
};

struct DTypeRow {
  std::string_view text;
  int bytes;
  char kind;
};
inline constexpr DTypeRow kDTypes[] = {
#define DTYPE(name, text, bytes, kind) DTypeRow{text, bytes, kind},
#include "base/dtypes.def"
#undef DTYPE
};
constexpr const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

constexpr std::string_view name_of(DType dtype) { return row_of(dtype).text; }
std::optional<DType> dtype_from_name(std::string_view text);
constexpr int size_of(DType dtype) { return row_of(dtype).bytes; }  // that an element takes in memory
constexpr bool is_float(DType dtype) { return row_of(dtype).kind == 'f'; }
constexpr bool is_signed_int(DType dtype) { return row_of(dtype).kind == 's'; }
constexpr bool is_int(DType dtype) { return is_signed_int(dtype) || row_of(dtype).kind == 'u'; }  // not Bool

}  // namespace smelt
