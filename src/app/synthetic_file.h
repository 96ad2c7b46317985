// The bytes of a GGUF file before its tensor data, written from hyper-parameters.
#pragma once

#include <vector>

#include "app/synthetic_shapes.h"
#include "gguf/head.h"

namespace smelt {

NewHead synthetic_file(const SyntheticSpec& spec, const std::vector<SyntheticTensor>& tensors, uint64_t alignment);

}  // namespace smelt
