// Repeats one kernel that DUMP=dir left behind: parses it, compiles it, runs it and the interpreter
// on the same random inputs, and says how they compare.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/codegen.h"

namespace smelt {

struct ReplayReport {
  std::string text;    // for the user: the kernel, its options, time, largest difference
  std::string source;  // the kernel's tree, its program and its source for the device, one after the other
  bool agrees = true;  // with the interpreter, within the bound of its reductions
};

// What DUMP=dir left of a kernel.
struct DumpedKernel {
  std::string name;
  Ref tree;
  KernelOpts opts;                   // empty: chosen anew
  std::vector<std::string> symbols;  // names of launch values that it reads
};

// NAME.ir, with the options of NAME.opts where that is there. An Error if the file cannot be read or is not a dumped
// kernel, or if the options do not suit the machine.
Result<DumpedKernel> read_dumped_kernel(const std::string& path, const Machine& machine);

// On a device by name (runtime/devices.h). An Error if the file cannot be read or is not a dumped kernel, or if the
// device fails.
Result<ReplayReport> replay_kernel(const std::string& path, const std::string& device = "cpu");

// The kernel in all its forms on a machine by name (runtime/machines.h), where nothing is run. An Error as above, or if
// the options beside it do not suit that machine.
Result<std::string> kernel_on_machine(const std::string& path, const std::string& machine);

}  // namespace smelt
