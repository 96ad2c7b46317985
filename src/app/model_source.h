// What a command measures or tunes: the model of a file, or a known one with random weights in memory.
#pragma once

#include <memory>
#include <string>

#include "app/engine_flags.h"
#include "app/synthetic_model.h"

namespace smelt {

class ModelSource {
 public:
  // `synthetic`: SHAPE:MIX, in place of engine.model unless empty.
  static Result<ModelSource> open(const EngineFlags& engine, const std::string& synthetic);

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
