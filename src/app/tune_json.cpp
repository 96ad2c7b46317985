#include "app/tune_json.h"

#include <nlohmann/json.hpp>

#include "app/plan_name.h"
#include "engine/tuned_options.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

// [parent, generation, estimate, ratio, last ratio, options], and the problem where there is one
Json trials_of(const TuneOutcome& o) {
  Json out = Json::array();
  for (const TuneTrial& t : o.trials) {
    Json trial = {t.parent, t.generation, t.estimate_us, t.ratio, t.last_ratio, t.options};
    if (!t.problem.empty()) trial.push_back(t.problem);
    out.push_back(std::move(trial));
  }
  return out;
}

struct Subject {
  std::string kernel, plan, stage, what, layout;  // layout: empty where weights stay as they lie
  int calls = 0;
  double share = 0;
  std::string problem;
};

Json search_of(const Subject& s, const TuneOutcome& o) {
  return {{"kernel", s.kernel},
          {"plan", s.plan},
          {"stage", s.stage},
          {"what", s.what},
          {"layout", s.layout},
          {"calls", s.calls},
          {"share", s.share},
          {"problem", s.problem},
          {"before_us", o.before_us},
          {"after_us", o.after_us},
          {"floor_us", o.floor_us},
          {"improved", o.improved},
          {"interrupted", o.interrupted},
          {"considered", o.counts.considered},
          {"hopeless", o.counts.hopeless},
          {"compiled", o.counts.compiled},
          {"wrong", o.counts.wrong},
          {"judged", o.judged_elements},
          {"before", to_string(o.before)},
          {"after", to_string(o.after)},
          {"winner", o.winner},
          {"trials", trials_of(o)}};
}

void add(const TunedLayout& tuned, Json& out) {
  for (const TriedLayout& tried : tuned.tried)
    for (size_t i = 0; i < tried.outcomes.size(); ++i) {
      const RoleKernel& k = tuned.job.kernels[i];
      out.push_back(search_of({.kernel = k.name,
                               .plan = plan_name(k.plan),
                               .stage = k.stage,
                               .what = tuned.job.role,
                               .layout = to_string(tried.layout),
                               .calls = k.calls,
                               .share = k.share,
                               .problem = {}},
                              tried.outcomes[i]));
    }
}

}  // namespace

std::string text_of_tune(const SavedTune& tune) {
  Json searches = Json::array();
  for (const TunedJob& t : tune.kernels)
    searches.push_back(search_of({.kernel = t.job.name,
                                  .plan = t.job.plan,
                                  .stage = t.job.stage,
                                  .what = t.job.what,
                                  .layout = {},
                                  .calls = t.job.calls,
                                  .share = t.job.share,
                                  .problem = t.problem},
                                 t.outcome));
  for (const TunedLayout& t : tune.layouts) add(t, searches);
  const Json out = {{"smelt_search", kSearchFormat}, {"name", tune.model},      {"device", tune.device},
                    {"machine", tune.machine},       {"threads", tune.threads}, {"search", std::move(searches)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smelt
