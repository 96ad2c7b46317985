#include "app/model_source.h"

#include <cstdio>
#include <fstream>
#include <string>

namespace smelt {

Result<ModelSource> ModelSource::open(const EngineFlags& engine, const std::string& synthetic) {
  ModelSource out;
  if (synthetic.empty()) {
    SMELT_TRY(file, open_model(engine.model));
    out.file_ = std::make_unique<GgufFile>(std::move(file));
    return out;
  }
  SMELT_TRY(spec, parse_synthetic(synthetic));
  SMELT_TRY(model, SyntheticModel::make(spec, use_of_weights(engine.no_repack)));
  out.synthetic_ = std::move(model);
  return out;
}

void ModelSource::release_pages() {
  if (!synthetic_) return;
  synthetic_->release_pages();
  reset_peak_memory();
}

int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lld", &kilobytes) == 1) return kilobytes * 1024;
  }
  return 0;
}

void reset_peak_memory() {
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

}  // namespace smelt
