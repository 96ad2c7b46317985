// A tune as one document, for `smelt viz`: every list of options that was looked at (docs/tuning.md).
#pragma once

#include <string>
#include <vector>

#include "app/tune_layouts.h"
#include "app/tune_report.h"

namespace smelt {

constexpr int kSearchFormat = 1;

struct SavedTune {
  std::string model, device;  // in words
  std::string machine;        // Machine::name of the device
  int threads = 1;
  std::vector<TunedJob> kernels;
  std::vector<TunedLayout> layouts;
};

std::string text_of_tune(const SavedTune& tune);

}  // namespace smelt
