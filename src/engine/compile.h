// Compile: segment graphs become launchable kernels. All stages of the compiler meet here, in this order:
//
//   segment graph -> make_schedule() -> KernelBuilder -> Device::compile()
//
// Equal segments are scheduled once, equal kernels are compiled once.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/codegen.h"
#include "engine/kernel_builder.h"
#include "engine/tuned_options.h"
#include "schedule/schedule.h"

namespace smelt {

struct CompiledKernel {
  std::string name;
  Ref tree;
  KernelOpts opts;
  const Executable* executable = nullptr;
};

struct CompiledSegment {
  Schedule schedule;
  std::vector<int> kernels;  // for each kernel of the schedule, its number in Compiler::kernel()
};

class Compiler {
 public:
  // `symbols`: names of the launch values, in the order in which plans give them.
  Compiler(Device& device, std::vector<std::string> symbols);

  // Kernels that have tuned options get them instead of the heuristic's. REQUIRES: no segment was added yet.
  void use_tuned(TunedOptions tuned) { tuned_ = std::move(tuned); }

  // Schedules a segment and generates its kernels; returns the segment's number.
  int add_segment(Ref root);

  // An error if a kernel keeps more on chip than the machine has for it.
  const Status& fits() const { return unfit_; }

  // Compiles what add_segment() has collected since the last call, or takes it from the cache. When `cancel` becomes
  // true in between, there is no machine code afterwards and the Compiler is of no use any more. An error also if a
  // kernel does not fit.
  Status finish(const ProgressFn& progress = {}, const std::atomic<bool>* cancel = nullptr);

  const Machine& machine() const { return builder_.machine(); }
  const std::vector<std::string>& symbols() const { return builder_.symbols(); }
  const CompiledSegment& segment(int number) const { return segments_[number]; }
  const CompiledKernel& kernel(int number) const { return kernels_[number]; }
  int kernel_count() const { return static_cast<int>(kernels_.size()); }
  // Those that code generation made; the others were known from an earlier start (recipe.h).
  int generated() const { return generated_; }
  // Those whose tuned options no longer stand: the heuristic has chosen theirs.
  int tuned_lost() const { return tuned_lost_; }

  // For people: what a kernel has become on its way, made again.
  Program program(int kernel) const;
  Source source(const Program& program) const { return builder_.source(program); }

 private:
  // A kernel on its way into finish().
  struct Pending {
    int kernel;
    Source source;
    std::string question;  // under which its recipe is remembered; empty: it is not to be
  };

  int add_kernel(Ref tree);
  void generate_kernel(Pending& pending);

  KernelBuilder builder_;
  TunedOptions tuned_;
  std::vector<CompiledSegment> segments_;
  std::unordered_map<const Node*, int> segment_of_;
  std::vector<CompiledKernel> kernels_;
  std::unordered_map<const Node*, int> kernel_of_;
  std::vector<Pending> pending_;
  Status unfit_;  // about the first kernel that the machine cannot run
  int generated_ = 0, tuned_lost_ = 0;
};

}  // namespace smelt
