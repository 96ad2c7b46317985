#include "engine/plan.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr int kShares = 8;  // measured: 4 leave half of the idle time that 8 take away

// What workers compute for themselves they would compute again for each part.
int shares_of(const Kernel& kernel) {
  const Refs& nests = nests_of(kernel);
  return std::any_of(nests.begin(), nests.end(), is_local_nest) ? 1 : kShares;
}

}  // namespace

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
    launches_.push_back({compiler.kernel(compiled.kernels[k]).entry, pointers.data(),
                         shares_of(schedule.kernels[k])});
    kernels_.push_back(compiled.kernels[k]);
  }
}

}  // namespace smelt
