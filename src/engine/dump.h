// What DEBUG and DUMP show of a compilation (base/options.def lists the levels).
#pragma once

#include <string>

#include "codegen/codegen.h"
#include "schedule/schedule.h"

namespace smelt {

void debug_schedule(const Schedule& schedule);         // DEBUG=2
PassObserver debug_passes(const std::string& kernel);  // DEBUG=5
// DEBUG=3 prints tree and options, DEBUG=4 the program; DUMP=dir leaves NAME.ir (tree), NAME.opts and NAME.program
// there.
void debug_kernel(Ref tree, const CodegenResult& result);
// Leaves NAME.ir, and NAME.opts where options are given, in the folder of DUMP or else in a new temporary one. A
// sentence that says how to repeat the kernel; empty if nothing could be left.
std::string leave_for_replay(Ref tree, const std::string& name, const KernelOpts& opts);
// DEBUG=4 prints it; DUMP=dir leaves it there as NAME.ll.
void debug_source(const std::string& name, const std::string& source);

}  // namespace smelt
