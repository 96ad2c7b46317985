// What others reach with a model on a machine, or smelt did: known_rates.def.
#pragma once

#include <string>
#include <vector>

#include "engine/model_plans.h"
#include "gguf/gguf.h"

namespace smelt {

struct KnownRate {
  std::string machine, model, test;
  double least = 0, most = 0;  // tokens a second
  std::string whose;
};

// Those of a machine and of the models that this one is like: as many layers of the same size, and weights of as many
// bytes, or nearly so.
std::vector<KnownRate> known_rates(const std::string& machine, const Model& model, uint64_t weight_bytes);

}  // namespace smelt
