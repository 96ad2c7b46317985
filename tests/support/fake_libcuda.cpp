// A libcuda.so.1 for programs under test: its calls are those of FakeCuda, so that kernels of a GPU are compiled and
// launched, and do nothing. From the environment: FAKE_CUDA_MEMORY, its bytes; FAKE_CUDA_MAJOR, its compute capability.
#include <cstdlib>

#include "support/fake_cuda.h"

namespace smelt::test {
namespace {

const CudaDriver& driver() {
  static FakeCuda fake;
  static const CudaDriver calls = [] {
    if (const char* bytes = std::getenv("FAKE_CUDA_MEMORY")) fake.memory = std::strtoull(bytes, nullptr, 10);
    if (const char* major = std::getenv("FAKE_CUDA_MAJOR")) fake.major = std::atoi(major);
    return fake.driver();
  }();
  return calls;
}

}  // namespace

// The symbols are bound to the functions of the table when they are looked up.
#define CALL(name, symbol, parameters)                               \
  using name##_type = CuResult parameters;                           \
  extern "C" name##_type* resolve_##name() { return driver().name; } \
  extern "C" __attribute__((ifunc("resolve_" #name), visibility("default"))) name##_type name##_call asm(symbol);
#include "runtime/cuda/driver_calls.def"
#undef CALL

}  // namespace smelt::test
