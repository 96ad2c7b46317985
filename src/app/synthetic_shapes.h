// Models that need no file: the shapes of known models, and which tensor has which type in a mix of types.
//
//   glm-4.7-flash:q4_k_m      GLM-4.7-Flash as `llama-quantize Q4_K_M` writes it
//   glm-4.7-flash:q4_0:4      its first four layers only
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/types.h"
#include "model/model.h"

namespace smelt {

struct SyntheticSpec {
  std::string name;        // as given, "glm-4.7-flash:q4_0:4"
  std::string shape_name;  // "glm-4.7-flash"
  bool names_layers = false;
  std::shared_ptr<const Model> model;  // with as many layers as were asked for
  std::string mix;                     // one of synthetic_mixes(), or a type of gguf/types.def in small letters
};

// SHAPE[:MIX[:LAYERS]], the mix q4_k_m where none is given. An Error lists what there is.
Result<SyntheticSpec> parse_synthetic(const std::string& text);

std::vector<std::string> synthetic_shapes();
std::vector<std::string> synthetic_mixes();                 // the named ones
std::string listed(const std::vector<std::string>& names);  // "a, b, c"

struct SyntheticTensor {
  std::string name;  // as in a file
  GgufType type;
  std::vector<uint64_t> dims;  // fastest first
  uint64_t bytes = 0;
  double mean = 0,
         deviation = 1;  // of its values, chosen so that no activation grows without bounds
};

// All tensors in the order of files.
std::vector<SyntheticTensor> tensors_of(const SyntheticSpec& spec);
uint64_t weight_bytes(const SyntheticSpec& spec);

}  // namespace smelt
