// Judges kernels by what they compute: nothing is timed, let alone chosen, before it has agreed with the interpreter.
//
// The kernel as the heuristic makes it is compared with the interpreter on elements spread over all that it stores; a
// candidate with those elements, and with every byte that the former wrote.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel_eval.h"
#include "engine/site_memory.h"
#include "engine/tune_site.h"
#include "runtime/device.h"

namespace smelt {

class TuneJudge {
 public:
  // `base`: the kernel with the heuristic's options. An Error if it disagrees with the interpreter, or if that would
  // take too long to find out, or if the device failed, as below. Prepares the site. REQUIRES: site and device outlive
  // the judge.
  static Result<TuneJudge> make(const TuneSite& site, const Executable* base, Device& device);

  // What is wrong with a kernel's output; empty if nothing is. `arguments`: of the site's first launch, or with the
  // weights in another layout. REQUIRES: the site is prepared, or nobody but the judge has run anything on it since it
  // was.
  Result<std::string> problem_with(const Executable* kernel, const void* const* arguments);

  // The same output, bit by bit, for other numbers of workers. REQUIRES: as problem_with().
  Result<bool> is_steady(const Executable* kernel, const void* const* arguments);

  size_t elements() const { return expected_.size(); }  // judged by the interpreter
  int64_t bytes() const;                                // compared with the heuristic's kernel

 private:
  // What stores write between two addresses of a buffer.
  struct Region {
    int64_t buffer = 0, first = 0, bytes = 0;
    DType dtype = DType::Void;
    std::vector<std::byte> reference;
    double scale = 1;  // 1 + the greatest of the reference
  };

  TuneJudge(const TuneSite& site, Device& device) : site_(&site), device_(&device), memory_(site, device) {}
  void find_regions();
  Status ask_interpreter();
  Status poison();
  // Leaves the outputs in memory_. `parts`: as in Launch.
  Status run(const Executable* kernel, const void* const* arguments, int parts = 0);
  std::string compare_elements() const;
  std::string compare_region(const Region& region) const;
  bool is_in_a_region(const KernelElement& element) const;
  std::span<const std::byte> region_now(const Region& region) const;
  std::vector<std::byte> output() const;

  const TuneSite* site_;
  Device* device_;
  SiteMemory memory_;
  std::set<int64_t> outputs_;  // buffers that are stored to
  std::vector<Region> regions_;
  std::vector<KernelElement> expected_;
  double agreement_ = 0;
  bool rounds_ = false;    // floats to integers on the way: a tie may fall either way
  bool in_place_ = false;  // an output may be an input too
};

}  // namespace smelt
