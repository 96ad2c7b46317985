#include "app/profile_machine.h"

#include <algorithm>

#include "runtime/bandwidth.h"
#include "runtime/devices.h"
#include "runtime/machine_rates.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Products of bytes and their sums that vectors make in a second, two operations for each.
double byte_operations_of(const Machine& m) {
  const double instructions = m.byte_dot == ByteDot::Madd ? 2 : 1;  // for the products of a vector and their sums
  const int64_t side_by_side = m.has_threads() ? m.warp_threads : 1;
  const double bytes = static_cast<double>(m.processors * side_by_side * m.byte_dot_bytes);
  return 2 * bytes * m.vectors_per_cycle * m.cycles_per_second / instructions;
}

// The same by the matrix unit; 0: not known. One that loads matrices itself takes a row a cycle.
double unit_operations_of(const Machine& m) {
  const MatrixUnit* unit = unit_for_bytes(m);
  if (!unit) return 0;
  const auto products = static_cast<double>(unit->m * unit->n * unit->k);
  const double cycles = unit->loads_operands ? static_cast<double>(unit->m) : unit->start_cycles;
  return cycles > 0 ? 2 * products / cycles * m.cycles_per_second * static_cast<double>(m.processors) : 0;
}

}  // namespace

Result<MachineRates> measure_machine(int threads) {
  SMELT_TRY(measured, measure_rates(threads));
  MachineRates rates{.threads = thread_count(threads),
                     .cores = thread_count(0),
                     .bytes_per_second = measured.bandwidth,
                     .barrier_seconds = measured.barrier_seconds};
  rates.arithmetic.threads = rates.threads;
  rates.arithmetic.add(measured);
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
          .arithmetic = {.threads = processors,
                         .one_thread = most / processors,
                         .least = most,
                         .most = most,
                         .bytes = byte_operations_of(machine),
                         .unit = unit_operations_of(machine)},
          .barrier_seconds = std::max(machine.launch_seconds, machine.barrier_seconds)};
}

}  // namespace smelt
