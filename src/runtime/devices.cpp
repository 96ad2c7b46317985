#include "runtime/devices.h"

#include <algorithm>
#include <charconv>
#include <mutex>

#include "base/machine_changes.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/metal/metal_device.h"
#include "runtime/metal/open.h"
#include "runtime/metal_shim/shim_gpu.h"

namespace smelt {
namespace {

// Of "cuda" and "cuda:N"; nothing of another name.
std::optional<int> ordinal_of(const std::string& name) {
  if (name == "cuda") return 0;
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int ordinal = 0;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
  const auto [stopped, problem] = std::from_chars(begin, end, ordinal);
  if (problem != std::errc() || stopped != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

Result<std::unique_ptr<Device>> open_cpu(const DeviceOptions& options, const std::string& changes) {
  return open_cpu_device({.threads = options.threads,
                          .use_cache = options.use_cache,
                          .codegen = {},
                          .target = options.target,
                          .changes = changes});
}

Result<std::unique_ptr<Device>> open_cuda(int ordinal, const DeviceOptions& options, const std::string& changes) {
  SMELT_TRY(driver, cuda_driver());
  return open_cuda_device(*driver, {.ordinal = ordinal, .use_cache = options.use_cache, .changes = changes});
}

constexpr std::string_view kAuto = "auto", kCpu = "cpu", kMetal = "metal", kMetalShim = "metal-shim";
constexpr int64_t kPlayedParts = 3;  // of a launch, where it has the choice: some, so that sharing out is looked at

Result<std::unique_ptr<Device>> open_metal(const std::string& name, const DeviceOptions& options,
                                           const std::string& changes) {
  SMELT_TRY(gpu, name == kMetal ? open_metal_gpu() : open_shim_gpu());
  return open_metal_device(std::move(gpu), {.name = name,
                                            .use_cache = options.use_cache,
                                            .changes = changes,
                                            .most_parts = name == kMetal ? kMostParts : kPlayedParts});
}

bool finds_cuda() {
  const auto driver = cuda_driver();
  if (!driver) return false;
  const Result<int> count = cuda_device_count(**driver);
  return count && *count > 0;
}

Result<std::unique_ptr<Device>> open_first(DeviceOptions options) {
  const std::vector<std::string> names = names_for(options.name);
  for (const std::string& name : names) {
    options.name = name;
    Result<std::unique_ptr<Device>> device = open_device(options);
    if (device || name == names.back()) return device;
  }
  return Error{"[device] there is none"};
}

struct Shared {
  DeviceOptions options;
  std::weak_ptr<Device> device;
};

}  // namespace

bool is_device_name(const std::string& given) {
  const auto [name, changes] = split_changes(given);
  return name == kAuto || name == kCpu || name == kMetal || name == kMetalShim || ordinal_of(name).has_value();
}

bool is_processor(const std::string& name) { return split_changes(name).name == kCpu; }

std::vector<std::string> names_for(const std::string& given) {
  const auto [name, changes] = split_changes(given);
  if (name != kAuto) return {given};
  const std::string behind = changes.empty() ? "" : "," + changes;
  std::vector<std::string> names;
  if (finds_cuda()) names.push_back("cuda" + behind);
  names.push_back(std::string(kCpu) + behind);
  return names;
}

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  const auto [name, changes] = split_changes(options.name);
  if (name == kAuto) return open_first(options);
  if (name == kCpu) return open_cpu(options, changes);
  if (const auto ordinal = ordinal_of(name)) return open_cuda(*ordinal, options, changes);
  if (name == kMetal || name == kMetalShim) return open_metal(name, options, changes);
  return Error{"[device] " + name + ": no device is called that; use auto, cpu, cuda, cuda:N, metal or metal-shim"};
}

Result<std::shared_ptr<Device>> shared_device(const DeviceOptions& options) {
  static std::mutex mutex;
  static std::vector<Shared> open;
  std::lock_guard lock(mutex);
  std::erase_if(open, [](const Shared& s) { return s.device.expired(); });
  for (const Shared& s : open)
    if (s.options == options)
      if (auto device = s.device.lock()) return device;
  SMELT_TRY(device, open_device(options));
  std::shared_ptr<Device> shared = std::move(device);
  open.push_back({options, shared});
  return shared;
}

FoundDevices find_devices() {
  FoundDevices found{.names = {"cpu"}, .note = {}};
  if (open_metal_gpu()) {  // a system of Apple, which has no other
    found.names.emplace_back(kMetal);
    return found;
  }
  const auto driver = cuda_driver();
  const Result<int> count = driver ? cuda_device_count(**driver) : Result<int>(driver.error());
  if (!count)
    found.note = count.error().message;
  else if (*count == 0)
    found.note = "[cuda] the driver finds no GPU";
  else
    for (int i = 0; i < *count; ++i) found.names.push_back("cuda:" + std::to_string(i));
  return found;
}

}  // namespace smelt
