// SiteMemory: what the buffers of a site's first launch hold, for a host that compares. Where the host sees the memory
// of the device that is where it lies; else they are copies, as of the last refresh().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/tune_site.h"
#include "runtime/device.h"

namespace smelt {

class SiteMemory {
 public:
  // REQUIRES: both outlive this.
  SiteMemory(const TuneSite& site, Device& device);

  // By Param number; empty where they are copies and were never refreshed, or forgotten since.
  std::span<const std::byte> operator[](int64_t buffer) const;
  std::vector<std::span<const std::byte>> all() const;

  // An Error if the device failed, here and below.
  Status refresh(int64_t buffer);
  void forget(int64_t buffer);
  // Every byte of a stretch becomes `value`, on the device too. REQUIRES: the buffer was refreshed.
  Status fill(int64_t buffer, int64_t first, int64_t bytes, std::byte value);

 private:
  std::byte* address(int64_t buffer) const;
  size_t size(int64_t buffer) const { return static_cast<size_t>(site_->buffers[static_cast<size_t>(buffer)].bytes); }

  const TuneSite* site_;
  Device* device_;
  std::vector<std::vector<std::byte>> copies_;  // empty: the host sees memory
};

}  // namespace smelt
