// The model of a benchmark: a file, or one of random weights in memory.
#pragma once

#include <memory>

#include "app/bench_flags.h"
#include "app/synthetic_model.h"

namespace smelt {

class BenchFile {
 public:
  static Result<BenchFile> open(const BenchConfig& config);

  const GgufFile& file() const { return synthetic_ ? synthetic_->file() : *file_; }
  // Once its weights are loaded. The source of a synthetic model is mapped many times over, which would count as memory
  // each time.
  void release_pages();

 private:
  std::unique_ptr<SyntheticModel> synthetic_;  // this or
  std::unique_ptr<GgufFile> file_;             // that
};

// Bytes of this process's memory that were resident at once, since the last reset.
int64_t peak_memory();
void reset_peak_memory();  // where the system cannot, the peak of the whole process stays

}  // namespace smelt
