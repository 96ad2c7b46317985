#include "runtime/cuda/context.h"

#include <utility>

namespace smelt {

Result<int> cuda_device_count(const CudaDriver& driver) {
  int count = 0;
  SMELT_CHECK(driver.check(driver.device_count(&count), "counting the GPUs"));
  return count;
}

Result<CudaProperties> cuda_properties(const CudaDriver& driver, int ordinal) {
  CudaProperties p{.ordinal = ordinal};
  const auto check = [&](CuResult result, const char* doing) {
    return driver.check(result, p.name() + ": asking for its " + doing);
  };
  CuDeviceId device = 0;
  SMELT_CHECK(check(driver.device_get(&device, ordinal), "handle"));
  char title[256] = {};
  SMELT_CHECK(check(driver.device_name(title, sizeof title - 1, device), "name"));
  p.title = title;
  size_t bytes = 0;
  SMELT_CHECK(check(driver.device_memory(&bytes, device), "memory"));
  p.memory_bytes = bytes;
  const std::pair<int*, int> attributes[] = {{&p.major, Cu::kMajor},
                                             {&p.minor, Cu::kMinor},
                                             {&p.processors, Cu::kProcessors},
                                             {&p.processor_blocks, Cu::kProcessorBlocks},
                                             {&p.processor_threads, Cu::kProcessorThreads},
                                             {&p.processor_registers, Cu::kProcessorRegisters},
                                             {&p.processor_shared_bytes, Cu::kProcessorSharedBytes},
                                             {&p.block_threads, Cu::kBlockThreads},
                                             {&p.block_shared_bytes, Cu::kBlockSharedBytes},
                                             {&p.block_reserved_bytes, Cu::kBlockReservedBytes},
                                             {&p.warp_threads, Cu::kWarpThreads},
                                             {&p.l2_bytes, Cu::kL2Bytes}};
  for (const auto& [value, attribute] : attributes)
    SMELT_CHECK(check(driver.device_attribute(value, attribute, device), "limits"));
  return p;
}

Result<std::unique_ptr<CudaContext>> CudaContext::open(const CudaDriver& driver, int ordinal) {
  SMELT_TRY(count, cuda_device_count(driver));
  if (ordinal < 0 || ordinal >= count)
    return Error{"[cuda] cuda:" + std::to_string(ordinal) + ": this machine has " +
                 (count == 0 ? "no GPU that the driver can use; use --device cpu"
                             : std::to_string(count) + (count == 1 ? " GPU, cuda:0" : " GPUs, from cuda:0 on"))};
  SMELT_TRY(properties, cuda_properties(driver, ordinal));
  std::unique_ptr<CudaContext> made(new CudaContext(driver, std::move(properties)));
  SMELT_CHECK(made->check(driver.device_get(&made->device_, ordinal), "asking for its handle"));
  SMELT_CHECK(made->check(driver.context_retain(&made->context_, made->device_), "making a context"));
  SMELT_CHECK(made->enter());
  SMELT_CHECK(made->check(driver.stream_create(&made->stream_, Cu::kNonBlocking), "making a stream"));
  return made;
}

// What goes wrong here has gone wrong before and was told then.
CudaContext::~CudaContext() {
  if (!context_) return;
  driver_->context_set(context_);
  if (stream_) driver_->stream_destroy(stream_);
  driver_->context_release(device_);
}

}  // namespace smelt
