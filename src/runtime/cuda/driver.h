// NVIDIA's driver as a table of calls, found while the program runs: one program works with and without a GPU, and no
// toolkit is needed to build it. The declarations are our own and hold no more than we use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace smelt {

using CuResult = int;  // 0: success
using CuDeviceId = int;
using CuAddress = uint64_t;
using CuContext = struct CuContextTag*;
using CuModule = struct CuModuleTag*;
using CuFunction = struct CuFunctionTag*;
using CuStream = struct CuStreamTag*;
using CuEvent = struct CuEventTag*;
using CuGraph = struct CuGraphTag*;
using CuGraphExec = struct CuGraphExecTag*;
using CuLink = struct CuLinkTag*;

// How a kernel is launched: the driver's CUlaunchConfig.
struct CuLaunch {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1, shared_bytes = 0;
  CuStream stream = nullptr;
  // It may begin while the kernel before it ends: programmatic stream serialization.
  static constexpr int kOverlaps = 6;
  struct Attribute {
    int id = 0;
    int padding = 0;
    int value[16] = {};
  };
  Attribute* attributes = nullptr;
  unsigned count = 0;
};

// The constants of the calls, as the driver numbers them.
struct Cu {
  static constexpr CuResult kOutOfMemory = 2;
  // device_attribute
  static constexpr int kBlockThreads = 1, kWarpThreads = 10, kProcessors = 16, kL2Bytes = 38, kProcessorThreads = 39,
                       kMajor = 75, kMinor = 76, kProcessorSharedBytes = 81, kProcessorRegisters = 82,
                       kBlockSharedBytes = 97, kProcessorBlocks = 106, kBlockReservedBytes = 111;
  // function_get, function_set
  static constexpr int kRegisters = 4, kDynamicSharedBytes = 8;
  // options of link_create and module_load
  static constexpr int kErrorLog = 5, kErrorLogBytes = 6;
  static constexpr int kPtx = 1;                 // link_add: what is added
  static constexpr unsigned kNonBlocking = 1;    // stream_create: independent of the default stream
  static constexpr int kCaptureThreadLocal = 1;  // capture_begin: other threads may call what they like
};

struct CudaDriver {
#define CALL(name, symbol, parameters) CuResult(*name) parameters = nullptr;
#include "runtime/cuda/driver_calls.def"
#undef CALL

  // "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"
  std::string text_of(CuResult result) const;
  // An Error that says what was being done, unless `result` is success.
  Status check(CuResult result, const std::string& doing) const;
};

// The driver of this machine, initialised; the same each time. An Error says in one sentence why there is none.
Result<const CudaDriver*> cuda_driver();

// The driver that a shared library is. An Error if it cannot be loaded or lacks a call.
Result<CudaDriver> load_cuda_driver(const std::string& library);

}  // namespace smelt
