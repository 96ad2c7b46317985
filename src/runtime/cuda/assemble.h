// PTX becomes machine code of a GPU, a cubin, by the driver's own assembler.
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/cuda/context.h"

namespace smelt {

// An Error has what the assembler says. Thread-safe. REQUIRES: the calling thread has entered the context.
Result<std::string> assemble(const CudaContext& context, const std::string& name, const std::string& ptx);

}  // namespace smelt
