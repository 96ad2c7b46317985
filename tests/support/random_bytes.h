// Random contents of buffers, compiled apart from the tests: some fill hundreds of megabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace smelt::testing {

// Floats in [-1, 1); integers 0, 1, .. `rows` - 1, 0, .. in a random order of rounds; raw bytes
// without the bit that would make a half beside them large.
std::vector<std::byte> random_bytes(size_t bytes, DType dtype, std::mt19937_64& rng, int64_t rows = 64);

}  // namespace smelt::testing
