#include "runtime/machines.h"

#include "base/machine_changes.h"
#include "runtime/cpu/measured_cpu.h"
#include "runtime/null/null_device.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr const char* kHost = "host";

}  // namespace

const Machine& host_machine() {
  static const Machine machine = [] {
    Machine m = machine_of(host_target());
    measured_cpu().apply_to(m);
    return m;
  }();
  return machine;
}

Status measure_host_again() { return measure_cpu_again(); }

std::vector<std::string> machine_names() {
  std::vector<std::string> names = {kHost};
  for (const Machine& m : known_machines()) names.push_back(m.name);
  return names;
}

Result<Machine> find_machine(const std::string& given) {
  const auto [name, changes] = split_changes(given);
  auto machine = name == kHost ? std::optional(host_machine()) : known_machine(name);
  if (machine) {
    SMELT_CHECK(change(*machine, changes));
    return std::move(*machine);
  }
  std::string names;
  for (const std::string& known : machine_names()) names += (names.empty() ? "" : ", ") + known;
  return Error{"[machine] " + name + ": no machine is called that; use one of " + names};
}

Result<std::unique_ptr<Device>> open_null_device(const std::string& name) {
  SMELT_TRY(machine, find_machine(name));
  CpuTarget target;
  if (split_changes(name).name == kHost) {
    target = host_target();
  } else if (!machine.has_threads()) {
    SMELT_TRY(named, named_target(machine.target));
    target = std::move(named);
  }
  return std::unique_ptr<Device>(std::make_unique<NullDevice>(std::move(machine), std::move(target)));
}

}  // namespace smelt
