// Of which power of two the integers of a program are multiples, whatever its arguments: how addresses are aligned.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/program.h"

namespace smelt {

constexpr int64_t kMostMultiple = 64;

// By instruction: the greatest power of two up to kMostMultiple that is known to divide its value; 1 where it has none.
std::vector<int64_t> known_multiples(const Program& program);

}  // namespace smelt
