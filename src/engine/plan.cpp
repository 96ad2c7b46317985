#include "engine/plan.h"

#include <algorithm>
#include <cstdint>

#include "base/ensure.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int kShares = 8;  // measured: 4 leave half of the idle time that 8 take away

// About as much as handing out a part costs, or telling all workers that it is there.
constexpr int64_t kLittleWork = 4096, kMuchWork = 1 << 20;
// Of a kernel whose parts are worth handing out, although workers compute something for themselves first.
constexpr int64_t kWorkOfParts = 1 << 18;

// Terms of all sums of a nest, or values where there is none, with symbolic sizes at their greatest.
int64_t work_of(Ref nest) {
  int64_t work = 0;
  for (Ref n : toposort(nest)) {
    if (n->op != Op::Store && !is_reduce(n->op)) continue;
    int64_t terms = 1;
    Refs ranges = ranges_of(n);
    for (Ref r : own_ranges(n))
      if (!contains(ranges, r)) ranges.push_back(r);
    for (Ref r : ranges) terms = std::min(terms * std::clamp<int64_t>(RangeView(r).most(), 1, kMuchWork), kMuchWork);
    work += terms;
  }
  return work;
}

// How workers share a launch: a core that others use, too, or that is slower, takes less of it.
void share_out(const Kernel& kernel, Launch& launch) {
  int64_t repeated = 0, shared = 0;
  for (Ref nest : nests_of(kernel)) (is_local_nest(nest) ? repeated : shared) += work_of(nest);
  launch.half_is_fixed = repeated > kLittleWork && shared >= kWorkOfParts;
  launch.shares = repeated > kLittleWork && !launch.half_is_fixed ? 1 : kShares;
}

struct Extent {
  uintptr_t begin = 0, end = 0;
  bool is_stored = false;
};

// With symbolic sizes at their greatest.
int64_t most_bytes(Ref slot) {
  int64_t bytes = size_of(slot->dtype);
  for (Ref size : slot->shape) bytes *= size->max;
  return bytes;
}

// Kernels are rendered on the promise that what they store to is reached through one argument alone.
void check_apart(const Kernel& kernel, const std::vector<Extent>& extents) {
  for (size_t a = 0; a < extents.size(); ++a)
    for (size_t b = 0; b < a; ++b) {
      if (!extents[a].is_stored && !extents[b].is_stored) continue;
      ENSURE(extents[a].end <= extents[b].begin || extents[b].end <= extents[a].begin,
             "[plan] " + kernel_name(kernel.tree) + ": arguments " + std::to_string(b) + " and " + std::to_string(a) +
                 " overlap, and one of them is written");
    }
}

std::vector<bool> stored_buffers(const Kernel& kernel) {
  std::vector<bool> stored(kernel.buffers.size());
  for (Ref nest : nests_of(kernel))
    for (Ref store : stores_of(nest))
      if (const Ref buffer = StoreView(store).buffer; buffer->op == Op::Param)
        stored[static_cast<size_t>(number_of_buffer(buffer))] = true;
  return stored;
}

}  // namespace

void Plan::append(const Compiler& compiler, int segment, const std::vector<SlotBinding>& slots, const Resolve& resolve,
                  void* arena) {
  const CompiledSegment& compiled = compiler.segment(segment);
  const Schedule& schedule = compiled.schedule;
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    const Kernel& kernel = schedule.kernels[k];
    const std::vector<bool> stored = stored_buffers(kernel);
    std::vector<const void*>& pointers = pointers_.emplace_back();
    std::vector<Extent> extents;
    for (Ref buffer : kernel.buffers) {
      const auto number = static_cast<size_t>(number_of_buffer(buffer));
      const bool temp = buffer->op == Op::Temp;
      pointers.push_back(temp ? static_cast<std::byte*>(arena) + schedule.temps[number].offset
                              : resolve(slots[number]));
      const auto begin = reinterpret_cast<uintptr_t>(pointers.back());
      const int64_t bytes = temp ? schedule.temps[number].bytes : most_bytes(buffer);
      extents.push_back({begin, begin + static_cast<uintptr_t>(bytes), stored[extents.size()]});
    }
    check_apart(kernel, extents);
    know_symbols(compiler, kernel.tree);
    launches_.push_back({compiler.kernel(compiled.kernels[k]).executable, pointers.data()});
    share_out(kernel, launches_.back());
    kernels_.push_back(compiled.kernels[k]);
  }
}

void Plan::know_symbols(const Compiler& compiler, Ref tree) {
  const std::vector<std::string>& names = compiler.symbols();
  if (symbols_.empty())
    for (const std::string& name : names) symbols_.push_back({.name = name});
  for (Ref n : toposort(tree)) {
    if (n->op != Op::Var) continue;
    const auto at = std::find(names.begin(), names.end(), n->arg.name) - names.begin();
    ENSURE(at < std::ssize(names), "[plan] nobody gives " + n->arg.name);
    Symbol& symbol = symbols_[static_cast<size_t>(at)];
    symbol.min = std::max(symbol.min, n->min);
    symbol.max = std::min(symbol.max, n->max);
  }
}

Result<uint64_t> Plan::start(std::span<const int64_t> symbols, const RunOptions& options) const {
  for (size_t i = 0; i < symbols_.size() && i < symbols.size(); ++i)
    if (symbols[i] < symbols_[i].min || symbols[i] > symbols_[i].max)
      return Error{"[plan] " + symbols_[i].name + ": " + std::to_string(symbols[i]) +
                   " is outside of what its kernels were made for, " + std::to_string(symbols_[i].min) + " to " +
                   std::to_string(symbols_[i].max) + "; give fewer tokens at once, or a longer context when opening"};
  return device_->start(*captured_, symbols, options);
}

Status Plan::run(std::span<const int64_t> symbols, const RunOptions& options) const {
  SMELT_TRY(started, start(symbols, options));
  return device_->wait(started);
}

Status Plan::capture(Device& device) {
  SMELT_TRY(captured, device.capture(launches_));
  captured_ = std::move(captured);
  device_ = &device;
  return {};
}

}  // namespace smelt
