// "What if" of the kernel view: a kernel of the model that was recorded, with other options. They are judged and timed
// by what a search uses (engine/tune_trial.h), in a process of their own.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "app/profile_run.h"
#include "app/tune_times.h"

namespace smelt {

class WhatIf {
 public:
  // `prompt_tokens`: read before a token is decoded, or as the prompt. REQUIRES: the session lives as long.
  WhatIf(Session& session, const EngineFlags& flags, int64_t prompt_tokens);

  // `question`: {"kernel": NAME, "options": [of each nest, as the recording has them]}. The answer has either
  // "refused", a sentence, or before_us, after_us, judged, bytes and the kernel's texts. Never fails.
  nlohmann::ordered_json answer(const std::string& question);

 private:
  Result<nlohmann::ordered_json> try_out(const nlohmann::ordered_json& question);
  Result<std::string> try_here(PlanKind plan, int kernel, const KernelOpts& opts);
  Result<PlanKind> make_ready(int kernel);
  Status replay(PlanKind plan);
  int number_of(const std::string& kernel) const;  // -1: there is none

  Session& session_;
  const EngineFlags flags_;
  const std::vector<int32_t> tokens_;
  std::map<PlanKind, PlanTimes> times_;
};

}  // namespace smelt
