#include "engine/compile.h"

#include <cinttypes>
#include <cstdio>

#include "base/options.h"
#include "engine/dump.h"
#include "render/llvm.h"

namespace smelt {

Machine machine_of(const CpuTarget& target) {
  return {.lanes = target.vector_bytes / 4, .registers = target.vector_registers};
}

std::string kernel_name(Ref tree) {
  const Ref store = tree->src.back()->src.back();
  std::string what(name_of(store->src[2]->op));
  for (Ref n : toposort(store->src[2]))
    if (is_reduce(n->op)) what = name_of(n->op);
  for (size_t i = 3; i < store->src.size(); ++i)
    what += "_" + (is_const(store->src[i]->src[0]) ? std::to_string(store->src[i]->src[0]->arg.i) : "n");
  char key[24];
  std::snprintf(key, sizeof key, "_%08" PRIx64, tree->key >> 32);
  return what + key;
}

Compiler::Compiler(CpuDevice& device, std::vector<std::string> symbols)
    : device_(device), symbols_(std::move(symbols)), machine_(machine_of(device.target())) {}

int Compiler::add_segment(Ref root) {
  if (auto it = segment_of_.find(root.get()); it != segment_of_.end()) return it->second;
  CompiledSegment segment{.schedule = make_schedule(root)};
  debug_schedule(segment.schedule);
  for (const Kernel& k : segment.schedule.kernels) segment.kernels.push_back(add_kernel(k.tree));
  segments_.push_back(std::move(segment));
  return segment_of_[root.get()] = static_cast<int>(segments_.size()) - 1;
}

int Compiler::add_kernel(Ref tree) {
  if (auto it = kernel_of_.find(tree.get()); it != kernel_of_.end()) return it->second;
  CodegenRequest request{.tree = tree, .name = kernel_name(tree), .machine = machine_, .symbols = symbols_};
  request.observe = debug_passes(request.name);
  CodegenResult result = generate(request);
  debug_kernel(tree, result);
  Source source{.text = render_llvm(result.program, llvm_options(device_.target())), .entry = request.name};
  debug_source(request.name, source.text);
  pending_.push_back(std::move(source));
  kernels_.push_back({.name = request.name, .tree = tree, .opts = std::move(result.opts)});
  return kernel_of_[tree.get()] = static_cast<int>(kernels_.size()) - 1;
}

void Compiler::finish(const ProgressFn& progress) {
  const std::vector<KernelEntry> entries = device_.compile(pending_, progress);
  for (KernelEntry entry : entries) kernels_[finished_++].entry = entry;
  pending_.clear();
}

}  // namespace smelt
