#include "runtime/null/null_device.h"

#include "runtime/llvm/compile.h"
#include "runtime/llvm/ptx.h"

namespace smelt {

NullDevice::NullDevice(Machine machine, CpuTarget target) : machine_(std::move(machine)), target_(std::move(target)) {}

Error NullDevice::nothing_runs() const {
  return Error{"[device] " + machine_.name + ": kernels are only made for this machine, and none runs; use --device"};
}

Result<void*> NullDevice::allocate(size_t, std::string_view) { return nothing_runs(); }
Status NullDevice::upload(void*, std::span<const std::byte>) { return nothing_runs(); }
Status NullDevice::clear(void*, size_t) { return nothing_runs(); }
Status NullDevice::read_back(std::span<std::byte>, const void*) { return nothing_runs(); }
Result<const Executable*> NullDevice::memory_reader() { return nothing_runs(); }
Result<std::unique_ptr<CapturedPlan>> NullDevice::capture(std::span<const Launch>) { return nothing_runs(); }
Result<uint64_t> NullDevice::start(const CapturedPlan&, std::span<const int64_t>, const RunOptions&) {
  return nothing_runs();
}

Result<std::vector<const Executable*>> NullDevice::compile(std::span<const Source>, const ProgressFn&,
                                                           const std::atomic<bool>*) {
  return nothing_runs();
}

std::string NullDevice::assembly(const Source& source) const {
  switch (machine_.isa) {
    case Isa::X86:
    case Isa::Arm: return smelt::assembly(source, target_);
    case Isa::Nvidia: return compile_ptx(source, machine_.target);
    case Isa::Apple: return {};
  }
  return {};
}

Assembly NullDevice::linked_assembly(const Source& source) const {
  switch (machine_.isa) {
    case Isa::X86:
    case Isa::Arm: return smelt::linked_assembly(source, target_);
    case Isa::Nvidia: return linked_ptx(source, machine_.target);
    case Isa::Apple: return {};
  }
  return {};
}

}  // namespace smelt
