// One list of options for a kernel, as a search would treat it: refused with a reason, or compiled, compared with the
// interpreter and with every byte that the kernel writes as it is, and timed in turns with that.
#pragma once

#include <atomic>

#include "codegen/codegen.h"
#include "engine/tune_site.h"
#include "runtime/device.h"

namespace smelt {

struct TrialRequest {
  const TuneSite& site;
  Device& device;         // one of its own, as in TuneRequest
  const KernelOpts& now;  // the kernel as it is. REQUIRES: they suit it
  const KernelOpts& then;
  const std::atomic<bool>* cancel = nullptr;
};

struct TrialOutcome {
  double before_us = 0, after_us = 0;  // typical_of() a launch with cold weights
  size_t judged_elements = 0;          // by the interpreter
  int64_t compared_bytes = 0;          // with the kernel as it is
  Program program;
  Source source;
};

// An Error says why the options do not suit the kernel, or how its output differs.
Result<TrialOutcome> try_options(const TrialRequest& request);

}  // namespace smelt
