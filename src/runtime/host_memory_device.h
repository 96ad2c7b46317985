// HostMemoryDevice: a device whose memory the process sees under the same addresses, so that copying to and from it is
// copying, once settle() has returned.
#pragma once

#include <algorithm>

#include "runtime/compiling_device.h"

namespace smelt {

class HostMemoryDevice : public CompilingDevice {
 public:
  bool host_sees_memory() const final { return true; }

  Status upload(void* to, std::span<const std::byte> from) override {
    SMELT_CHECK(settle());
    std::copy(from.begin(), from.end(), static_cast<std::byte*>(to));
    return {};
  }
  Status clear(void* to, size_t bytes) final {
    SMELT_CHECK(settle());
    std::fill_n(static_cast<std::byte*>(to), bytes, std::byte{0});
    return {};
  }
  Status read_back(std::span<std::byte> to, const void* from) final {
    SMELT_CHECK(settle());
    std::copy_n(static_cast<const std::byte*>(from), to.size(), to.begin());
    return {};
  }

 protected:
  // Until nothing that was begun still reads or writes memory.
  virtual Status settle() { return {}; }
};

}  // namespace smelt
