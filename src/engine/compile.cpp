#include "engine/compile.h"

#include <cinttypes>
#include <cstdio>

#include "base/ensure.h"
#include "base/options.h"
#include "engine/dump.h"
#include "engine/recipe.h"
#include "graph/tensor.h"
#include "graph/verify.h"
#include "render/llvm.h"

namespace smelt {

namespace {

void check(Ref root, Stage stage, const std::string& where) {
  if (!options().verify) return;
  const Status status = verify(root, stage);
  ENSURE(status.ok(), where + ": " + (status ? "" : status.error().message));
}

// After each pass: VERIFY=1 checks the legal forms of the stage, DEBUG=5 prints.
PassObserver observer(const std::string& kernel) {
  return [kernel, print = debug_passes(kernel)](const char* pass, const Refs& stores) {
    const std::string name = pass;
    const bool expanded = name == "expand" || name == "coalesce loads";
    check(sink(stores), expanded ? Stage::Expanded : Stage::Kernel, kernel + " after " + name);
    if (print) print(pass, stores);
  };
}

}  // namespace

Machine machine_of(const CpuTarget& target) {
  return {.lanes = target.vector_bytes / 4,
          .registers = target.vector_registers,
          .byte_matrices = target.amx_int8};
}

std::string kernel_name(Ref tree) {
  const Ref store = tree->src.back()->src.back();
  std::string what(name_of(store->src[2]->op));
  for (Ref n : toposort(store->src[2]))
    if (is_reduce(n->op)) what = name_of(n->op);
  for (size_t i = 3; i < store->src.size(); ++i)
    what += "_" +
            (is_const(store->src[i]->src[0]) ? std::to_string(store->src[i]->src[0]->arg.i) : "n");
  char key[24];
  std::snprintf(key, sizeof key, "_%08" PRIx64, tree->key >> 32);
  return what + key;
}

Compiler::Compiler(CpuDevice& device, std::vector<std::string> symbols)
    : device_(device), symbols_(std::move(symbols)), machine_(machine_of(device.target())) {}

int Compiler::add_segment(Ref root) {
  if (auto it = segment_of_.find(root.get()); it != segment_of_.end()) return it->second;
  check(root, Stage::Tensor, "segment");
  CompiledSegment segment{.schedule = make_schedule(root)};
  debug_schedule(segment.schedule);
  for (const Kernel& k : segment.schedule.kernels) segment.kernels.push_back(add_kernel(k.tree));
  segments_.push_back(std::move(segment));
  return segment_of_[root.get()] = static_cast<int>(segments_.size()) - 1;
}

CodegenRequest Compiler::request_for(Ref tree) const {
  return {.tree = tree, .name = kernel_name(tree), .machine = machine_, .symbols = symbols_};
}

Program Compiler::program(int kernel) const {
  CodegenRequest request = request_for(kernels_[kernel].tree);
  request.opts = kernels_[kernel].opts;
  return generate(request).program;
}

Source Compiler::source(const Program& program) const {
  return {.text = render_llvm(program, llvm_options(device_.target())), .entry = program.name};
}

int Compiler::add_kernel(Ref tree) {
  if (auto it = kernel_of_.find(tree.get()); it != kernel_of_.end()) return it->second;
  const CodegenRequest request = request_for(tree);
  const TunedEntry* tuned = tuned_.find(tree);
  Pending pending{.kernel = kernel_count(),
                  .source = {},
                  .question = recipe_question(request, tuned ? format_entry(*tuned) : "")};
  const std::string wanted = tuned && !tuned->is_built_in ? to_string(tuned->opts) : "";
  kernels_.push_back({.name = request.name, .tree = tree, .opts = {}});
  const auto known = pending.question.empty() ? std::nullopt : device_.recall(pending.question);
  const auto recipe = known ? parse_recipe(*known, tree->src.size()) : std::nullopt;
  if (recipe) {
    kernels_.back().opts = recipe->opts;
    pending.source = {.text = {}, .entry = request.name, .key = recipe->source_key};
  } else {
    generate_kernel(pending);
  }
  if (!wanted.empty() && to_string(kernels_.back().opts) != wanted) ++tuned_lost_;
  pending_.push_back(std::move(pending));
  return kernel_of_[tree.get()] = kernel_count() - 1;
}

void Compiler::generate_kernel(Pending& pending) {
  CompiledKernel& k = kernels_[static_cast<size_t>(pending.kernel)];
  CodegenRequest request = request_for(k.tree);
  if (options().noopt) request.opts.resize(k.tree->src.size());
  request.observe = observer(request.name);
  std::optional<CodegenResult> tuned;
  if (!options().noopt) tuned = tuned_.generate(request);
  CodegenResult result = tuned ? std::move(*tuned) : generate(request);
  debug_kernel(k.tree, result);
  pending.source = source(result.program);
  debug_source(request.name, pending.source.text);
  k.opts = std::move(result.opts);
  ++generated_;
}

void Compiler::finish(const ProgressFn& progress, const std::atomic<bool>* cancel) {
  // A recipe whose machine code is no longer there counts for nothing: the second round makes that.
  while (!pending_.empty()) {
    std::vector<Source> sources;
    for (const Pending& p : pending_) sources.push_back(p.source);
    const std::vector<KernelEntry> entries = device_.compile(sources, progress, cancel);
    if (entries.empty()) break;
    std::vector<Pending> missing;
    for (size_t i = 0; i < entries.size(); ++i) {
      Pending& p = pending_[i];
      CompiledKernel& k = kernels_[static_cast<size_t>(p.kernel)];
      k.entry = entries[i];
      if (!k.entry)
        generate_kernel(missing.emplace_back(std::move(p)));
      else if (p.source.key.empty() && !p.question.empty())
        device_.remember(p.question, format_recipe({k.opts, device_.key_of(p.source)}));
    }
    pending_ = std::move(missing);
  }
  pending_.clear();
  tuned_.report_outdated();
}

}  // namespace smelt
