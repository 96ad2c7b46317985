#include "runtime/cuda/assemble.h"

#include <array>

namespace smelt {
namespace {

// Options and their values, as the driver takes them: two arrays of the same length, values in the place of pointers.
struct LogOptions {
  std::array<char, 8192> log = {};
  std::array<int, 2> names = {Cu::kErrorLog, Cu::kErrorLogBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
};

// Destroys what was created, whatever happens in between.
struct Link {
  const CudaDriver& driver;
  CuLink link = nullptr;
  ~Link() {
    if (link) driver.link_destroy(link);
  }
};

}  // namespace

Result<std::string> assemble(const CudaContext& context, const std::string& name, const std::string& ptx) {
  const CudaDriver& driver = context.driver();
  LogOptions options;
  const auto check = [&](CuResult result) -> Status {
    const Status status = context.check(result, "assembling kernel " + name);
    if (status) return status;
    const std::string log = options.log.data();
    return Error{status.error().message + (log.empty() ? "" : "; the assembler says: " + log)};
  };
  Link link{driver};
  SMELT_CHECK(check(driver.link_create(2, options.names.data(), options.values.data(), &link.link)));
  // With its closing zero, as the driver wants text.
  SMELT_CHECK(check(driver.link_add(link.link, Cu::kPtx, const_cast<char*>(ptx.c_str()), ptx.size() + 1, name.c_str(),
                                    0, nullptr, nullptr)));
  void* cubin = nullptr;  // the link's
  size_t bytes = 0;
  SMELT_CHECK(check(driver.link_complete(link.link, &cubin, &bytes)));
  return std::string(static_cast<const char*>(cubin), bytes);
}

}  // namespace smelt
