// Numbers and bytes in hexadecimal digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace smelt {

std::string hex(uint64_t value);                    // 16 digits
std::string hex(std::span<const std::byte> bytes);  // two digits for each, in order

}  // namespace smelt
