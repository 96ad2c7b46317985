// Kernels in the Metal Shading Language as machine code of this processor: clang compiles them, unchanged, with the
// header metal_stdlib of this folder in place of Metal's. What they do to memory calls threadgroup.h.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "runtime/source.h"

namespace smelt {

// Where clang is, and what it calls itself.
struct ShimCompiler {
  std::string path, version;
};
// An Error says what to install.
Result<ShimCompiler> find_shim_compiler();

// A relocatable ELF file that defines `symbol`, a ShimEntry for all of the kernels. An Error has what clang says.
Result<std::string> compile_msl(const ShimCompiler& compiler, std::span<const Source> kernels,
                                const std::string& symbol);

// Empty if the kernels are right as text, each address space being a type of its own; else what clang says.
std::string parse_msl(const ShimCompiler& compiler, std::span<const Source> kernels);

}  // namespace smelt
