// Weights in the layout that kernels read fastest, in memory of the device. Each piece is rewritten from the mapped
// file and its pages are given back at once, so that the model is never in memory twice.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/load_options.h"
#include "engine/pack_cache.h"
#include "engine/pack_plan.h"
#include "runtime/device.h"

namespace smelt {

class PackedWeights {
 public:
  PackedWeights() = default;

  // Packs as planned. An Error if the system has not the memory, or when cancelled.
  // REQUIRES: the device outlives them.
  static Result<PackedWeights> pack(const PackPlan& plan, const LoadOptions& options, Device& device);
  // What an earlier start has packed and kept on disk. REQUIRES: it is of this plan.
  static PackedWeights mapped(const PackPlan& plan, PackCache::Mapped pack);

  // Null for a tensor that was not packed, or in another layout.
  const std::byte* find(const std::string& name, WeightLayout layout) const;
  // REQUIRES: the host sees the memory of the device.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void place(const PackPlan& plan);

  DeviceMemory memory_;
  MappedFile file_;
  std::span<const std::byte> bytes_;  // in one of the two
  std::map<std::pair<std::string, WeightLayout>, const std::byte*> places_;
};

}  // namespace smelt
