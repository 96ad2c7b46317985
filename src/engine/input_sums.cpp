#include "engine/input_sums.h"

#include <span>

namespace smelt {
namespace {

constexpr size_t kAlign = 64;

size_t bytes_of(const InputSums::Place& place) {
  return (static_cast<size_t>(place.elements) * sizeof(float) + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

Result<InputSums> InputSums::allocate(Device& device, std::vector<Place> places) {
  InputSums sums;
  sums.device_ = &device;
  size_t bytes = 0;
  for (const Place& place : places) bytes += bytes_of(place);
  SMELT_TRY(memory, DeviceMemory::allocate(device, bytes, "the sums of inputs"));
  sums.memory_ = std::move(memory);
  std::byte* at = sums.memory_.data();
  for (Place& place : places) {
    sums.by_name_[place.names.front()] = sums.buffers_.size();
    std::vector<double> zeros(static_cast<size_t>(place.elements));
    const size_t size = bytes_of(place);
    sums.buffers_.push_back({std::move(place), at, std::move(zeros)});
    at += size;
  }
  return sums;
}

Status InputSums::add_run(int64_t tokens) {
  std::vector<float> of_run;
  for (Buffer& buffer : buffers_) {
    of_run.resize(buffer.total.size());
    SMELT_CHECK(device_->read_back(std::as_writable_bytes(std::span(of_run)), buffer.begin));
    for (size_t i = 0; i < of_run.size(); ++i) buffer.total[i] += of_run[i];
  }
  tokens_ += tokens;
  return {};
}

std::map<std::string, std::vector<float>> InputSums::totals() const {
  std::map<std::string, std::vector<float>> all;
  for (const Buffer& buffer : buffers_)
    for (const std::string& name : buffer.place.names) all[name].assign(buffer.total.begin(), buffer.total.end());
  return all;
}

}  // namespace smelt
