// The shapes of known models, as their makers' configurations have them: what a file of one would say, without one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/model.h"

namespace smelt {

struct KnownShape {
  const char* name;
  std::function<std::shared_ptr<const Model>(int64_t layers)> first_layers;  // the model, cut to these
  int64_t layers;
};

const std::vector<KnownShape>& known_shapes();

}  // namespace smelt
