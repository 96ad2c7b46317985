// Weights into memory: packed from the file or mapped from the pack cache; or, for what is read in place, the pages of
// the file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/load_options.h"
#include "engine/packed_weights.h"

namespace smelt {

struct WeightLoading {
  Device& device;  // whose memory they go to
  const GgufFile& file;
  const PackPlan& packing;
  bool pack_cache = false;  // EngineOptions
  int threads = 1;
  // As OpenHooks has them. Not empty.
  std::function<void(const char* what, double fraction)> progress;
  std::function<void(const std::string& sentence)> note;
  const std::atomic<bool>* cancel = nullptr;
};

struct LoadedWeights {
  PackedWeights packed;
  std::vector<AdmittedMemory> admitted;  // what kernels read where it is mapped
  double seconds = 0;                    // without the time for keeping them on disk
};

// An Error if the system has not the memory, or when cancelled.
Result<LoadedWeights> load_weights(const WeightLoading& loading);

}  // namespace smelt
