#include "engine/compile.h"

#include "base/ensure.h"
#include "base/ensure_dump.h"
#include "base/options.h"
#include "engine/dump.h"
#include "engine/recipe.h"
#include "graph/tensor.h"
#include "graph/verify.h"

namespace smelt {

namespace {

void check(Ref root, Phase phase, const std::string& where) {
  if (!options().verify) return;
  const Status status = verify(root, phase);
  ENSURE(status.ok(), where + ": " + (status ? "" : status.error().message));
}

// After each pass: VERIFY=1 checks the legal form of the phase, DEBUG=5 prints.
PassObserver observer(const std::string& kernel) {
  return [kernel, print = debug_passes(kernel)](const char* pass, const Refs& stores) {
    const std::string name = pass;
    check(sink(stores), phase_behind(name), kernel + " after " + name);
    if (print) print(pass, stores);
  };
}

}  // namespace

Compiler::Compiler(Device& device, std::vector<std::string> symbols) : builder_(device, std::move(symbols)) {}

int Compiler::add_segment(Ref root) {
  if (auto it = segment_of_.find(root.get()); it != segment_of_.end()) return it->second;
  check(root, Phase::Tensor, "segment");
  CompiledSegment segment{.schedule = make_schedule(root, builder_.machine())};
  debug_schedule(segment.schedule);
  for (const Kernel& k : segment.schedule.kernels) segment.kernels.push_back(add_kernel(k.tree));
  segments_.push_back(std::move(segment));
  return segment_of_[root.get()] = static_cast<int>(segments_.size()) - 1;
}

Program Compiler::program(int kernel) const {
  const CompiledKernel& k = kernels_[kernel];
  return builder_.program(k.tree, k.name, k.opts);
}

int Compiler::add_kernel(Ref tree) {
  if (auto it = kernel_of_.find(tree.get()); it != kernel_of_.end()) return it->second;
  const CodegenRequest request = builder_.request(tree, kernel_name(tree));
  const TunedEntry* tuned = tuned_.find(tree);
  Pending pending{
      .kernel = kernel_count(), .source = {}, .question = recipe_question(request, tuned ? format_entry(*tuned) : "")};
  const std::string wanted = tuned ? to_string(tuned->opts) : "";
  kernels_.push_back({.name = request.name, .tree = tree, .opts = {}});
  const auto known = pending.question.empty() ? std::nullopt : builder_.device().recall(pending.question);
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
  const EnsureDump dump([&] { return leave_for_replay(k.tree, k.name, k.opts); });
  if (Status s = verify_kernel(k.tree, k.name, machine()); !s) {
    if (unfit_) unfit_ = std::move(s);
    return;
  }
  CodegenRequest request = builder_.request(k.tree, k.name);
  if (options().noopt) request.opts.resize(k.tree->src.size());
  request.observe = observer(request.name);
  std::optional<CodegenResult> tuned;
  if (!options().noopt) tuned = tuned_.generate(request);
  CodegenResult result = tuned ? std::move(*tuned) : generate(request);
  debug_kernel(k.tree, result);
  pending.source = builder_.source(result.program);
  debug_source(request.name, pending.source.text);
  k.opts = std::move(result.opts);
  pending.source.leave = [tree = k.tree, name = k.name, opts = k.opts] { return leave_for_replay(tree, name, opts); };
  ++generated_;
}

Status Compiler::finish(const ProgressFn& progress, const std::atomic<bool>* cancel) {
  SMELT_CHECK(unfit_);
  // A recipe whose machine code is no longer there counts for nothing: the second round makes that.
  while (!pending_.empty()) {
    std::vector<Source> sources;
    for (const Pending& p : pending_) sources.push_back(p.source);
    SMELT_TRY(compiled, builder_.device().compile(sources, progress, cancel));
    if (compiled.empty()) break;
    std::vector<Pending> missing;
    for (size_t i = 0; i < compiled.size(); ++i) {
      Pending& p = pending_[i];
      CompiledKernel& k = kernels_[static_cast<size_t>(p.kernel)];
      k.executable = compiled[i];
      if (!k.executable)
        generate_kernel(missing.emplace_back(std::move(p)));
      else if (p.source.key.empty() && !p.question.empty())
        builder_.device().remember(p.question, format_recipe({k.opts, builder_.device().key_of(p.source)}));
    }
    pending_ = std::move(missing);
  }
  pending_.clear();
  tuned_.report_outdated();
  return {};
}

}  // namespace smelt
