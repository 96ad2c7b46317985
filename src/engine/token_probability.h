// A token, and how likely it is to be drawn.
#pragma once

#include <cstdint>

namespace smelt {

struct TokenProbability {
  int32_t token = 0;
  double probability = 0;
};

}  // namespace smelt
