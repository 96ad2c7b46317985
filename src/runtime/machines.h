// Machines by name, wherever this program runs: for everything that is printed and not run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace smelt {

// This one: what is known of its processor, and what was measured of it once (runtime/cpu/measured_cpu.h).
const Machine& host_machine();
// Measures that again, and keeps it for this and later starts. An Error if it cannot be kept. REQUIRES: host_machine()
// was not asked for.
Status measure_host_again();

// "host" and those of base/machines.def.
std::vector<std::string> machine_names();
// By name; behind a comma what differs of it (base/machine_changes.h). An Error lists the names.
Result<Machine> find_machine(const std::string& name);

// A device that kernels can be made for and that runs none (runtime/null/).
Result<std::unique_ptr<Device>> open_null_device(const std::string& machine);

}  // namespace smelt
