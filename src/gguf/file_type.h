// general.file_type: the mixture of types that a whole file was quantised as.
#pragma once

#include <cstdint>
#include <string_view>

namespace smelt {

// "Q4_K_M" of 15; empty where the number is unknown.
std::string_view file_type_name(uint64_t file_type);

}  // namespace smelt
