// The devices of this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace smelt {

struct DeviceOptions {
  // "cpu", "cuda" (the first GPU), "cuda:N", "metal", "metal-shim" (runtime/metal_shim/), "auto" (names_for()); behind
  // a comma what differs of its machine (base/machine_changes.h).
  std::string name = "cpu";
  int threads = 0;                  // of a CPU; 0: of one for each core, so many as are fastest
  bool use_cache = true;            // look for compiled kernels on disk, and leave them there
  std::optional<CpuTarget> target;  // of a CPU: what kernels are made for, which this machine must run. None: for it
  bool operator==(const DeviceOptions&) const = default;
};

// A device of one's own. An Error if there is none of that name, or if it cannot be used.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

// The device that all of the process share who ask with the same options, opened when there is none: so two sessions
// have one set of workers and each kernel once. Thread-safe. It is closed with its last user.
Result<std::shared_ptr<Device>> shared_device(const DeviceOptions& options);

// Whether `name` is one that a device can have, on some machine.
bool is_device_name(const std::string& name);

// Whether that is the processor, as Device::name() says it. "auto" is not known to be until a device is open.
bool is_processor(const std::string& name);

// Names of devices in the order in which they are to be tried: of "auto" the first GPU that is found, then the
// processor, with the same changes behind the comma; of another name only itself.
std::vector<std::string> names_for(const std::string& name);

struct FoundDevices {
  std::vector<std::string> names;  // "cpu", and each GPU
  std::string note;                // why there is no GPU, as a sentence; empty where there is one
};
FoundDevices find_devices();

}  // namespace smelt
