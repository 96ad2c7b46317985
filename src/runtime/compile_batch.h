// What the compilers of all devices do alike with a batch of kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "runtime/source.h"

namespace smelt {

struct CompileBatch {
  size_t kernels = 0;  // to load or compile
  size_t known = 0;    // that are there already, and count as done
  int threads = 1;
};

// Calls load_or_compile(i) for each kernel of the batch, side by side. False if `cancel` became true: then no further
// kernel was begun.
bool compile_side_by_side(const CompileBatch& batch, const std::function<void(size_t)>& load_or_compile,
                          const ProgressFn& progress, const std::atomic<bool>* cancel);

}  // namespace smelt
