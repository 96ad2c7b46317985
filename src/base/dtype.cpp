#include "base/dtype.h"

#include <iterator>

namespace smelt {

std::optional<DType> dtype_from_name(std::string_view text) {
  for (size_t i = 0; i < std::size(kDTypes); ++i)
    if (kDTypes[i].text == text) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace smelt
