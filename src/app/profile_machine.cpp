#include "app/profile_machine.h"

#include <algorithm>

#include "runtime/bandwidth.h"
#include "runtime/devices.h"
#include "runtime/machine_rates.h"
#include "runtime/target.h"

namespace smelt {

Result<MachineRates> measure_machine(int threads) {
  SMELT_TRY(measured, measure_rates(threads));
  MachineRates rates{.threads = thread_count(threads),
                     .cores = thread_count(0),
                     .bytes_per_second = measured.bandwidth,
                     .barrier_seconds = measured.barrier_seconds};
  rates.arithmetic.threads = rates.threads;
  rates.arithmetic.add(measured.one_thread, measured.all_threads);
  return rates;
}

Result<MachineRates> measure_device(const std::string& name, int threads) {
  SMELT_TRY(device, open_device({.name = name}));
  if (is_processor(device->name())) return measure_machine(threads);
  MachineRates rates = described_rates(device->machine());
  SMELT_TRY(bandwidth, measure_bandwidth(*device));
  rates.bytes_per_second = bandwidth;
  return rates;
}

MachineRates described_rates(const Machine& machine) {
  const auto processors = static_cast<int>(machine.processors);
  const double most = machine.operations_per_second();
  return {.threads = processors,
          .cores = processors,
          .bytes_per_second = machine.bandwidth,
          .arithmetic = {.threads = processors, .one_thread = most / processors, .least = most, .most = most},
          .barrier_seconds = std::max(machine.launch_seconds, machine.barrier_seconds)};
}

}  // namespace smelt
