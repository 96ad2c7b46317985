// CudaContext: one GPU opened for this process, with the stream on which everything happens in order.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/cuda/driver.h"

namespace smelt {

// What the driver says of a GPU.
struct CudaProperties {
  int ordinal = 0;
  std::string title;
  int major = 0, minor = 0;  // compute capability
  uint64_t memory_bytes = 0;
  int processors = 0;  // multiprocessors
  int processor_blocks = 0, processor_threads = 0, processor_registers = 0, processor_shared_bytes = 0;
  int block_threads = 0, block_shared_bytes = 0, block_reserved_bytes = 0, warp_threads = 0;
  int l2_bytes = 0;

  std::string name() const { return "cuda:" + std::to_string(ordinal); }
};

Result<int> cuda_device_count(const CudaDriver& driver);
Result<CudaProperties> cuda_properties(const CudaDriver& driver, int ordinal);

class CudaContext {
 public:
  // REQUIRES: the driver outlives this.
  static Result<std::unique_ptr<CudaContext>> open(const CudaDriver& driver, int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  const CudaProperties& properties() const { return properties_; }
  CuStream stream() const { return stream_; }

  // Makes the calling thread one of this context. Before any other call of the driver.
  Status enter() const { return check(driver_->context_set(context_), "taking its context"); }
  // An Error that names the device and what was being done, unless `result` is success.
  Status check(CuResult result, const std::string& doing) const {
    return driver_->check(result, properties_.name() + ": " + doing);
  }
  // Waits until all that was begun on the stream is done.
  Status wait(const std::string& doing) const { return check(driver_->stream_wait(stream_), doing); }

 private:
  CudaContext(const CudaDriver& driver, CudaProperties properties)
      : driver_(&driver), properties_(std::move(properties)) {}

  const CudaDriver* driver_;
  CudaProperties properties_;
  CuDeviceId device_ = 0;
  CuContext context_ = nullptr;
  CuStream stream_ = nullptr;
};

}  // namespace smelt
