#include "engine/site_memory.h"

#include <cstring>

#include "base/ensure.h"

namespace smelt {

SiteMemory::SiteMemory(const TuneSite& site, Device& device) : site_(&site), device_(&device) {
  if (!device.host_sees_memory()) copies_.resize(site.buffers.size());
}

std::byte* SiteMemory::address(int64_t buffer) const {
  return static_cast<std::byte*>(const_cast<void*>(site_->launches[0][static_cast<size_t>(buffer)]));
}

std::span<const std::byte> SiteMemory::operator[](int64_t buffer) const {
  if (copies_.empty()) return {address(buffer), size(buffer)};
  return copies_[static_cast<size_t>(buffer)];
}

std::vector<std::span<const std::byte>> SiteMemory::all() const {
  std::vector<std::span<const std::byte>> out;
  for (size_t i = 0; i < site_->buffers.size(); ++i) out.push_back((*this)[static_cast<int64_t>(i)]);
  return out;
}

Status SiteMemory::refresh(int64_t buffer) {
  if (copies_.empty()) return {};
  std::vector<std::byte>& copy = copies_[static_cast<size_t>(buffer)];
  copy.resize(size(buffer));
  return device_->read_back(copy, address(buffer));
}

void SiteMemory::forget(int64_t buffer) {
  if (!copies_.empty()) copies_[static_cast<size_t>(buffer)] = {};
}

Status SiteMemory::fill(int64_t buffer, int64_t first, int64_t bytes, std::byte value) {
  ENSURE(first >= 0 && first + bytes <= static_cast<int64_t>((*this)[buffer].size()),
         "a stretch outside of its buffer");
  std::byte* const at = address(buffer) + first;
  const auto count = static_cast<size_t>(bytes);
  if (copies_.empty()) {
    std::memset(at, static_cast<int>(value), count);
    return {};
  }
  std::byte* const copy = copies_[static_cast<size_t>(buffer)].data() + first;
  std::memset(copy, static_cast<int>(value), count);
  return device_->upload(at, {copy, count});
}

}  // namespace smelt
