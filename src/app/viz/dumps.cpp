#include "app/viz/dumps.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "app/viz/load.h"
#include "app/viz/record_kernels.h"
#include "engine/kernel_builder.h"
#include "engine/replay.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostDumped = 5000;

class DumpedKernels : public KernelSet {
 public:
  DumpedKernels(Device& device, std::vector<DumpedKernel> kernels) : device_(device), kernels_(std::move(kernels)) {
    for (DumpedKernel& k : kernels_)
      if (k.opts.empty()) k.opts = generate(builder(k).request(k.tree, k.name)).opts;
  }

  int kernel_count() const override { return static_cast<int>(kernels_.size()); }
  KernelDescription kernel(int number) const override {
    const DumpedKernel& k = of(number);
    return {k.name, k.tree, k.opts, device_.machine()};
  }
  KernelListing listing(int number, bool with_assembly) const override {
    const DumpedKernel& k = of(number);
    KernelListing out{.program = builder(k).program(k.tree, k.name, k.opts), .source = {}, .assembly = {}};
    out.source = builder(k).source(out.program);
    if (with_assembly) out.assembly = device_.linked_assembly(out.source);
    return out;
  }
  std::vector<PlanLaunch> launches(PlanKind) const override { return {}; }
  std::vector<PlanSegment> segments(PlanKind) const override { return {}; }

 private:
  const DumpedKernel& of(int number) const { return kernels_[static_cast<size_t>(number)]; }
  KernelBuilder builder(const DumpedKernel& k) const { return {device_, k.symbols}; }

  Device& device_;
  std::vector<DumpedKernel> kernels_;
};

Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (auto at = fs::directory_iterator(path, problem); !problem && at != fs::directory_iterator();
       at.increment(problem))
    if (at->path().extension() == ".ir") files.push_back(at->path().string());
  if (problem) return Error{"[viz] " + path + ": " + problem.message()};
  if (files.empty()) return Error{"[viz] " + path + ": no NAME.ir is in it; DUMP=" + path + " smelt run writes them"};
  if (files.size() > kMostDumped)
    return Error{"[viz] " + path + ": " + std::to_string(files.size()) + " kernels, " + std::to_string(kMostDumped) +
                 " are possible"};
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool is_dump(const std::string& path) {
  std::error_code problem;
  return fs::is_directory(path, problem) || fs::path(path).extension() == ".ir";
}

Result<Json> recording_of_dump(const std::string& path, const std::string& machine) {
  SMELT_TRY(files, files_of(path));
  SMELT_TRY(device, open_null_device(machine));
  std::vector<DumpedKernel> dumped;
  for (const std::string& file : files) {
    SMELT_TRY(kernel, read_dumped_kernel(file, device->machine()));
    dumped.push_back(std::move(kernel));
  }
  const DumpedKernels kernels(*device, std::move(dumped));
  Tables tables;
  Json out = empty_recording(fs::path(path).lexically_normal().filename().string(), device->machine().title,
                             device->machine().name, 1);
  out["estimated"] = true;
  out["kernels"] = record_kernels(kernels, tables);
  out["strings"] = tables.strings.json();
  out["nodes"] = std::move(tables.nodes).json();
  return out;
}

}  // namespace smelt
