#include "runtime/cuda/driver.h"

#include <dlfcn.h>

namespace smelt {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

Result<CudaDriver> load_and_initialise() {
  SMELT_TRY(driver, load_cuda_driver(kLibrary));
  SMELT_CHECK(driver.check(driver.init(0), "starting NVIDIA's driver"));
  return driver;
}

}  // namespace

std::string CudaDriver::text_of(CuResult result) const {
  const char *text = nullptr, *name = nullptr;
  if (error_text(result, &text) != 0 || !text) text = "an error that the driver has no words for";
  if (error_name(result, &name) != 0 || !name) return std::string(text) + " (" + std::to_string(result) + ")";
  return std::string(text) + " (" + name + ")";
}

Status CudaDriver::check(CuResult result, const std::string& doing) const {
  if (result == 0) return {};
  return Error{"[cuda] " + doing + ": " + text_of(result)};
}

Result<CudaDriver> load_cuda_driver(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays, like the driver's threads
  if (!handle)
    return Error{"[cuda] there is no NVIDIA driver on this machine (" + library +
                 " cannot be loaded); use --device cpu"};
  CudaDriver driver;
#define CALL(name, symbol, parameters)                                             \
  driver.name = reinterpret_cast<CuResult(*) parameters>(::dlsym(handle, symbol)); \
  if (!driver.name)                                                                \
    return Error{"[cuda] the driver " + library +                                  \
                 " has no " symbol                                                 \
                 "; install one for CUDA 12 or later, or use "                     \
                 "--device cpu"};
#include "runtime/cuda/driver_calls.def"
#undef CALL
  return driver;
}

Result<const CudaDriver*> cuda_driver() {
  static const Result<CudaDriver> driver = load_and_initialise();
  if (!driver) return driver.error();
  return &*driver;
}

}  // namespace smelt
