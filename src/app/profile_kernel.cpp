#include "app/profile_kernel.h"

#include <cstdio>

#include "app/plan_name.h"
#include "app/profile_words.h"
#include "base/progress.h"
#include "graph/text.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr size_t kMostNames = 12;

Result<int> find_kernel(const KernelSet& kernels, const std::string& name) {
  std::vector<int> found;
  std::string names;
  for (int i = 0; i < kernels.kernel_count(); ++i) {
    const std::string candidate = kernels.kernel(i).name;
    if (candidate == name) return i;
    if (candidate.find(name) != std::string::npos) found.push_back(i);
  }
  if (found.size() == 1) return found[0];
  const bool none = found.empty();
  for (int i = 0; none && i < kernels.kernel_count(); ++i) found.push_back(i);
  for (size_t i = 0; i < std::min(found.size(), kMostNames); ++i)
    names += (i ? ", " : "") + kernels.kernel(found[i]).name;
  if (found.size() > kMostNames) names += " and " + std::to_string(found.size() - kMostNames) + " more";
  return Error{"[profile] --kernel " + name + ": " +
               (none ? "no kernel has this in its name; there are " : "several kernels have this in their names: ") +
               names};
}

// Where the model launches it: "decode: layers 1 to 46", with the weights of the first place.
std::string places(const KernelSet& kernels, int kernel, const KernelCost& cost) {
  std::string out;
  for (PlanKind plan : kPlanKinds) {
    int count = 0;
    std::string what;
    for (const PlanLaunch& launch : kernels.launches(plan)) {
      if (launch.kernel != kernel) continue;
      if (count++ == 0)
        what = launch_in_words(launch, kernels.kernel(kernel).tree, cost) +
               (launch.layer < 0 ? "" : ", first in layer " + std::to_string(launch.layer)) +
               (launch.lines.empty() ? "" : "\n  made by " + lines_in_words(launch));
    }
    if (count > 0)
      out += std::string(plan_name(plan)) + ", " + std::to_string(count) + (count == 1 ? " launch: " : " launches: ") +
             what + "\n";
  }
  return out;
}

// The buffers of the first launch, under the numbers that formulas, program and text know them by.
std::string arguments(const KernelSet& kernels, int kernel) {
  for (PlanKind plan : kPlanKinds)
    for (const PlanLaunch& launch : kernels.launches(plan)) {
      if (launch.kernel != kernel) continue;
      std::string out;
      for (size_t i = 0; i < launch.buffers.size(); ++i)
        out += std::to_string(i) + "  " + launch.buffers[i].name + ": " + launch.buffers[i].shape + "\n";
      return out;
    }
  return {};
}

std::string section(const std::string& title, const std::string& body) { return "\n--- " + title + "\n" + body; }

std::string formulas(Ref tree) {
  std::string out;
  for (Ref nest : tree->src)
    for (Ref store : nest->src) {
      const StoreView s(store);
      std::string loops;
      for (Ref r : s.ranges) loops += (loops.empty() ? "" : ", ") + to_infix(r) + " < " + to_infix(RangeView(r).size);
      out += "for " + (loops.empty() ? "once" : loops) + ":\n  " + to_infix(s.buffer) + "[" + to_infix(s.offset) +
             "] = " + to_infix(s.value) + "\n";
    }
  return out;
}

// Assembly is left out where nothing here makes any.
std::string text_sections(const KernelListing& listing, const Machine& machine) {
  const bool is_msl = machine.isa == Isa::Apple;
  const std::string source = section(is_msl ? "Metal Shading Language" : "LLVM IR", listing.source.text);
  return listing.assembly.text.empty() ? source : source + section("assembly", listing.assembly.text);
}

}  // namespace

Result<std::string> kernel_text(const KernelSet& kernels, const std::string& name) {
  SMELT_TRY(number, find_kernel(kernels, name));
  const KernelDescription kernel = kernels.kernel(number);
  const KernelListing listing = kernels.listing(number, true);
  const KernelCost cost = cost_of(kernel.tree);
  const KernelShape shape = shape_of(kernel.tree, kernel.opts, kernel.machine);
  std::string options;
  for (const auto& nest : kernel.opts) options += (nest.empty() ? "none" : to_string(nest)) + "\n";
  char figures[256];
  std::snprintf(
      figures, sizeof figures, "at most: reads %s, writes %s, %.3g float and %.3g integer operations, %lld tasks\n",
      bytes_text(static_cast<uint64_t>(cost.read)).c_str(), bytes_text(static_cast<uint64_t>(cost.written)).c_str(),
      cost.float_ops, cost.int_ops, static_cast<long long>(shape.tasks));
  return kernel.name + "\n" + places(kernels, number, cost) + figures +
         section("arguments", arguments(kernels, number)) + section("formulas", formulas(kernel.tree)) +
         section("tree", print(kernel.tree)) + section("options, a line for each nest", options) +
         section("program", print(listing.program)) + text_sections(listing, kernel.machine);
}

}  // namespace smelt
