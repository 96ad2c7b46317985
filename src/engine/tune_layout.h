// A kernel over weights in another layout than they have, beside the kernel as it is: what a search over layouts runs.
//
// The weights of one launch are packed once more, from the file. Inputs and outputs are those of the session, so both
// kernels read and write the same memory otherwise, and the outputs of the one judge those of the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/tune_site.h"
#include "gguf/gguf.h"
#include "runtime/memory.h"

namespace smelt {

struct LayoutTrial {
  PlanKind plan;
  size_t launch = 0;  // of the plan: one that reads a weight of the role
  std::string role;
  WeightLayout layout;
};

class LayoutSites {
 public:
  // An Error if there is not the memory, or if the schedule would be another one. REQUIRES: `sites` are of that plan
  // and outlive this; so does the file, which is the session's.
  static Result<std::unique_ptr<LayoutSites>> make(const Session& session, const GgufFile& file, const PlanSites& sites,
                                                   const LayoutTrial& trial, int threads);

  const TuneSite& now() const { return now_; }    // the launch as the session runs it
  const TuneSite& then() const { return then_; }  // the same in the other layout

 private:
  LayoutSites(TuneSite now, TuneSite then) : now_(std::move(now)), then_(std::move(then)) {}

  TuneSite now_, then_;
  std::vector<Buffer> weights_;
  std::vector<const void*> arguments_;
};

}  // namespace smelt
