#include "engine/kernel_builder.h"

#include <cinttypes>
#include <cstdio>

#include "base/ensure_dump.h"
#include "engine/dump.h"
#include "graph/tensor.h"
#include "graph/views.h"
#include "render/llvm.h"
#include "render/msl.h"
#include "render/nvptx.h"

namespace smelt {

std::string kernel_name(Ref tree) {
  const StoreView view(stores_of(tree->src.back()).back());
  std::string what(name_of(view.value->op));
  for (Ref n : toposort(view.value))
    if (is_reduce(n->op)) what = name_of(n->op);
  for (Ref r : view.ranges) {
    const auto size = const_int(RangeView(r).size);
    what += "_" + (size ? std::to_string(*size) : "n");
  }
  char key[24];
  std::snprintf(key, sizeof key, "_%08" PRIx64, tree->key >> 32);
  return what + key;
}

KernelBuilder::KernelBuilder(Device& device, std::vector<std::string> symbols)
    : device_(&device), symbols_(std::move(symbols)) {}

CodegenRequest KernelBuilder::request(Ref tree, std::string name, KernelOpts opts) const {
  return {.tree = tree, .name = std::move(name), .machine = machine(), .symbols = symbols_, .opts = std::move(opts)};
}

Program KernelBuilder::program(Ref tree, const std::string& name, const KernelOpts& opts) const {
  const EnsureDump dump([&] { return leave_for_replay(tree, name, opts); });
  return generate(request(tree, name, opts)).program;
}

Source source_of(const Program& program, const Machine& machine) {
  if (machine.has_threads())
    return {.text = machine.isa == Isa::Apple ? render_msl(program) : render_nvptx(program),
            .entry = program.name,
            .shape = {.buffers = program.buffers,
                      .threads = program.threads,
                      .tasks = program.tasks,
                      .blocks = machine.isa == Isa::Apple ? 0 : program.blocks,
                      .shared_bytes = program.scratch_bytes,
                      .has_prologue = program.has_prologue,
                      .overlaps = awaits(program)}};
  return {.text = render_llvm(program, machine), .entry = program.name};
}

Result<std::vector<const Executable*>> KernelBuilder::build(std::span<const Program> programs,
                                                            const LeaveFn& leave) const {
  std::vector<Source> sources;
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::function<std::string()> mine = leave ? [leave, i] { return leave(i); } : std::function<std::string()>();
    const EnsureDump dump(mine);
    sources.push_back(source(programs[i]));
    sources.back().leave = mine;
  }
  return device_->compile(sources);
}

Result<const Executable*> KernelBuilder::build(const Program& program) const {
  SMELT_TRY(kernels, build({&program, 1}));
  return kernels[0];
}

}  // namespace smelt
