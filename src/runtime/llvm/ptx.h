// LLVM as a compiler for NVIDIA's GPUs: IR text in, PTX out, which the driver assembles. Pure, thread-safe, and needs
// neither a GPU nor a toolkit.
#pragma once

#include <string>
#include <string_view>

#include "runtime/source.h"

namespace smelt {

// `architecture`: "sm_75", "sm_80", "sm_90", "sm_90a". The kernel is made for blocks of source.shape.threads threads.
// What is wrong with the text is a bug and stops the process, as in compile.h.
std::string compile_ptx(const Source& source, std::string_view architecture);

// The same, with the lines of the source that it came from.
Assembly linked_ptx(const Source& source, std::string_view architecture);

// The architecture that PTX for a GPU of this compute capability is made for; empty if the GPU is too old. Of those
// that LLVM does not know the newest before: the driver assembles that for them.
std::string ptx_architecture(int major, int minor);

// What besides text and architecture decides what compile_ptx() makes.
std::string ptx_pipeline();

}  // namespace smelt
