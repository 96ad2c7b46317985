#include "runtime/compile_batch.h"

#include <mutex>

#include "base/parallel.h"

namespace smelt {

bool compile_side_by_side(const CompileBatch& batch, const std::function<void(size_t)>& load_or_compile,
                          const ProgressFn& progress, const std::atomic<bool>* cancel) {
  std::mutex mutex;
  size_t done = batch.known;
  for_each_in_parallel(batch.kernels, batch.threads, [&](size_t i, int) {
    if (cancel && *cancel) return;
    load_or_compile(i);
    std::lock_guard lock(mutex);
    if (progress) progress(static_cast<int>(++done), static_cast<int>(batch.known + batch.kernels));
  });
  return !(cancel && *cancel);
}

}  // namespace smelt
