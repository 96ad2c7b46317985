// Where a kernel runs: what a search times it on, and judges it by.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/cost.h"
#include "engine/profile.h"
#include "graph/node.h"

namespace smelt {

class Session;

struct TuneSite {
  struct Buffer {
    int64_t bytes = 0;  // that a launch may touch
    bool is_weight = false;
  };

  std::string name;
  Ref tree;
  std::vector<std::string> symbol_names;  // launch values that come first, as kernels of the plan take them
  std::vector<int64_t> symbols;
  std::vector<Buffer> buffers;  // by Param number
  // The addresses of each launch, by Param number. They differ in weights, cache and hidden states alone, so that the
  // inputs of the first one serve all.
  std::vector<const void* const*> launches;
  std::function<Status()> prepare;  // puts the inputs of the first launch in place; an Error if the device failed
  double bytes_between = 0;         // of weights that are read between two uses of the same weight

  SymbolValues symbol_values() const;
};

// The kernels of a plan as a session runs them: launches over its own weights, with the inputs that they have in a
// real token. REQUIRES: the session has just replayed that plan with these symbols, and appends nothing while a site
// is in use; the device outlives this.
class PlanSites {
 public:
  PlanSites(const Session& session, PlanKind plan, const SymbolValues& symbols, Device& device, double bytes_between);
  ~PlanSites();
  PlanSites(const PlanSites&) = delete;
  PlanSites& operator=(const PlanSites&) = delete;

  // Of a kernel that the plan launches.
  TuneSite site(int kernel) const;
  // Of one launch of the plan alone.
  TuneSite site_of_launch(size_t launch) const;

 private:
  TuneSite site_of(const std::vector<size_t>& launches) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smelt
