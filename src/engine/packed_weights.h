// Weights in the layout that kernels read fastest, in memory of our own with large pages. Each tensor is rewritten from the
// mapped file and its pages are given back at once, so that the model is never in memory twice.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "gguf/gguf.h"
#include "model/dequant.h"
#include "runtime/memory.h"

namespace smelt {

class PackedWeights {
 public:
  // `layouts`: for each tensor (by its name in the file) the layout it is wanted in. Uses `threads` threads.
  // An Error if there is not enough memory: it names the bytes needed and available.
  static Result<PackedWeights> pack(const GgufFile& file,
                                    const std::map<std::string, WeightLayout>& layouts, int threads,
                                    const std::function<void(double fraction)>& progress);

  // Null for a tensor that was not packed.
  const std::byte* find(const std::string& name) const;
  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }

 private:
  Buffer buffer_;
  std::map<std::string, const std::byte*> places_;
};

}  // namespace smelt
