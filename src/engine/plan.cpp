#include "engine/plan.h"

namespace smelt {

void Plan::append(const Compiler& compiler, int segment, const std::vector<SlotBinding>& slots,
                  const Resolve& resolve, void* arena) {
  const CompiledSegment& compiled = compiler.segment(segment);
  const Schedule& schedule = compiled.schedule;
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    std::vector<const void*>& pointers = pointers_.emplace_back();
    for (Ref buffer : schedule.kernels[k].buffers) {
      const bool temp = buffer->op == Op::Temp;
      pointers.push_back(temp
                             ? static_cast<std::byte*>(arena) + schedule.temps[buffer->arg.i].offset
                             : resolve(slots[buffer->arg.i]));
    }
    launches_.push_back({compiler.kernel(compiled.kernels[k]).entry, pointers.data()});
    kernels_.push_back(compiled.kernels[k]);
  }
}

}  // namespace smelt
