// What the cache keeps of a kernel of threads: its launch shape, and its machine code.
#pragma once

#include <string>
#include <string_view>

#include "runtime/source.h"

namespace smelt {

// Equal shapes give equal text.
std::string text_of(const LaunchShape& shape);

struct PackedKernel {
  LaunchShape shape;
  std::string code;
};
std::string pack(const PackedKernel& kernel);
// REQUIRES: made by pack(); the cache gives nothing else.
PackedKernel unpack(std::string_view entry);

}  // namespace smelt
