#include "app/tune_layouts.h"

#include <algorithm>
#include <cstdio>

#include "app/interrupt.h"
#include "app/plan_name.h"
#include "app/profile_words.h"
#include "base/progress.h"
#include "engine/compile.h"
#include "engine/tune_child.h"
#include "engine/tune_layout.h"
#include "runtime/devices.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

constexpr double kWorthwhileRole = 0.02;  // share of the plans below which a role is left alone
constexpr double kGain = 0.02;            // of these shares, that a layout must save
constexpr double kMostHoped = 0.75;       // ratio that the kernels not yet searched may reach
constexpr double kFewestSeconds = 2;      // for a kernel
constexpr uint64_t kPerMille = 1000;

double total(const PlanTimes& times) {
  double seconds = 0;
  for (size_t i = 0; i < times.launches(); ++i) seconds += times.seconds(i);
  return seconds;
}

// The head belongs to the prompt that it follows.
double plan_seconds(const LayoutTuning& tuning, PlanKind plan) {
  double seconds = total(tuning.times.at(plan));
  if (plan != PlanKind::Head) return seconds;
  for (const PlanKind prefill : {PlanKind::Prefill, PlanKind::LongPrefill})
    if (const auto found = tuning.times.find(prefill); found != tuning.times.end()) seconds += total(found->second);
  return seconds;
}

RoleKernel& kernel_of(LayoutJob& job, PlanKind plan, int kernel) {
  for (RoleKernel& k : job.kernels)
    if (k.plan == plan && k.kernel == kernel) return k;
  return job.kernels.emplace_back(RoleKernel{.plan = plan, .kernel = kernel});
}

LayoutJob job_of(const LayoutTuning& tuning, const LaunchBuffer& weight) {
  const GgufTensor& tensor = *tuning.file.find(weight.tensor);
  LayoutJob job{.role = weight.role, .now = weight.layout};
  job.others = layouts_to_try(tensor.type, static_cast<int64_t>(tensor.dims[1]), host_machine().lanes(), weight.split);
  std::erase(job.others, job.now);
  return job;
}

Result<TuneOutcome> search(const LayoutTuning& tuning, const LayoutJob& job, const RoleKernel& kernel,
                           WeightLayout layout, double seconds, const std::string& what) {
  const PlanTimes& times = tuning.times.at(kernel.plan);
  SMELT_TRY(device, open_device({.threads = tuning.machine.threads, .use_cache = false}));
  const PlanSites sites(tuning.session, kernel.plan, times.symbols(), *device,
                        static_cast<double>(tuning.session.stats().bytes_per_token));
  SMELT_TRY(trial, LayoutSites::make(tuning.session, tuning.file, sites,
                                     {.plan = kernel.plan, .launch = kernel.launch, .role = job.role, .layout = layout},
                                     tuning.machine.threads));
  Progress bar(what + ", " + to_string(layout) + ", " + plan_name(kernel.plan), kPerMille, ProgressUnit::parts);
  return tune_kernel({.site = trial->then(),
                      .now = &trial->now(),
                      .device = *device,
                      .bytes_per_second = tuning.machine.bytes_per_second,
                      .known = {},
                      .limits = {.seconds = seconds},
                      .cancel = &interrupted(),
                      .progress = [&](double fraction) { bar.set(static_cast<uint64_t>(fraction * kPerMille)); }});
}

// Gives up once the kernels that are left cannot make up for those that were searched.
Result<TriedLayout> try_layout(const LayoutTuning& tuning, const LayoutJob& job, WeightLayout layout, double seconds,
                               const std::string& what) {
  TriedLayout tried{.layout = layout};
  double rest = job.share();
  for (const RoleKernel& kernel : job.kernels) {
    SMELT_CHECK(tuning.make_ready(kernel.plan));
    const double mine = std::max(kFewestSeconds, seconds * kernel.share / job.share());
    // What the child does to the session's memory is its own, so that the inputs stay in place here.
    Result<TuneOutcome> outcome = in_child([&] { return search(tuning, job, kernel, layout, mine, what); });
    if (!outcome) tried.problem = outcome.error().message;
    if (!outcome || interrupted()) return tried;
    rest -= kernel.share;
    tried.cost += kernel.share * outcome->after_us / outcome->before_us;
    tried.outcomes.push_back(outcome.take());
    if (tried.cost + rest * kMostHoped > job.cost_now() - kGain * job.share() &&
        tried.outcomes.size() < job.kernels.size()) {
      tried.problem = "the other kernels cannot make up for it";
      return tried;
    }
  }
  return tried;
}

}  // namespace

double LayoutJob::share() const {
  double sum = 0;
  for (const RoleKernel& k : kernels) sum += k.share;
  return sum;
}

double LayoutJob::cost_now() const {
  double sum = 0;
  for (const RoleKernel& k : kernels) sum += k.share * k.best_ratio;
  return sum;
}

std::vector<LayoutJob> layout_jobs(const LayoutTuning& tuning, const std::string& kernel) {
  std::map<std::string, LayoutJob> jobs;
  for (const auto& [plan, times] : tuning.times) {
    if (times.empty()) continue;
    const std::vector<PlanLaunch> launches = tuning.session.loaded().launches(plan);
    const double all = plan_seconds(tuning, plan);
    std::string stage;
    for (size_t i = 0; i < launches.size(); ++i) {
      stage = stage_of(launches[i], stage);
      for (const LaunchBuffer& b : launches[i].buffers) {
        if (b.role.empty()) continue;
        LayoutJob& job = jobs.try_emplace(b.role, job_of(tuning, b)).first->second;
        RoleKernel& k = kernel_of(job, plan, launches[i].kernel);
        if (k.calls == 0) {
          k.name = tuning.session.loaded().kernel(k.kernel).name;
          k.stage = stage;
          k.launch = i;
        }
        ++k.calls;
        k.seconds += times.seconds(i);
        k.share = k.seconds / all;
      }
    }
  }
  std::vector<LayoutJob> chosen;
  for (auto& [role, job] : jobs) {
    const bool is_wanted = kernel.empty() ? job.share() >= kWorthwhileRole
                                          : std::any_of(job.kernels.begin(), job.kernels.end(), [&](const auto& k) {
                                              return k.name.find(kernel) != std::string::npos;
                                            });
    if (!is_wanted || job.others.empty()) continue;
    std::stable_sort(job.kernels.begin(), job.kernels.end(),
                     [](const RoleKernel& a, const RoleKernel& b) { return a.share > b.share; });
    chosen.push_back(std::move(job));
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const LayoutJob& a, const LayoutJob& b) { return a.share() > b.share(); });
  return chosen;
}

Result<TunedLayout> tune_layout(const LayoutTuning& tuning, const LayoutJob& job, double seconds,
                                const std::string& what) {
  TunedLayout tuned{.job = job};
  double best = job.cost_now() - kGain * job.share();
  for (WeightLayout layout : job.others) {
    const double mine = seconds / static_cast<double>(job.others.size());
    SMELT_TRY(tried, try_layout(tuning, job, layout, mine, what));
    tuned.interrupted = interrupted();
    if (tuned.interrupted) return tuned;
    const bool wins = tried.problem.empty() && tried.cost < best;
    if (wins) best = tried.cost;
    tuned.tried.push_back(std::move(tried));
    if (wins) tuned.best = static_cast<int>(tuned.tried.size()) - 1;
  }
  return tuned;
}

std::vector<TunedEntry> entries_of(const TunedLayout& tuned) {
  if (tuned.best < 0 || tuned.interrupted) return {};
  const TriedLayout& best = tuned.tried[static_cast<size_t>(tuned.best)];
  const TunedEntry common{.device = device_text(host_machine()), .compiler = compiler_text()};
  TunedEntry layout = common;
  layout.kernel = role_hash(tuned.job.role);
  layout.name = tuned.job.role;
  layout.layout = best.layout;
  std::vector<TunedEntry> entries;
  for (size_t i = 0; i < best.outcomes.size(); ++i) {
    const TuneOutcome& o = best.outcomes[i];
    const RoleKernel& kernel = tuned.job.kernels[i];
    TunedEntry entry = common;
    entry.kernel = o.kernel;
    entry.program = o.program;
    entry.before_us = o.before_us;
    entry.after_us = o.after_us;
    entry.name = kernel.name + "@" + to_string(best.layout);
    entry.opts = o.after;
    entries.push_back(std::move(entry));
    layout.before_us += o.before_us * kernel.calls;
    layout.after_us += o.after_us * kernel.calls;
  }
  entries.push_back(std::move(layout));
  return entries;
}

std::string layout_plan_text(const std::vector<LayoutJob>& jobs) {
  if (jobs.empty()) return "";
  std::string out = "layouts of weights\n  share  kernels  now, others to try\n";
  for (const LayoutJob& job : jobs) {
    char line[200];
    std::snprintf(line, sizeof line, "%5.1f %% %7zu  ", 100 * job.share(), job.kernels.size());
    out += line + job.role + ": " + to_string(job.now) + ",";
    for (WeightLayout layout : job.others) out += " " + to_string(layout);
    out += "\n";
  }
  return out;
}

std::string layout_report(const std::vector<TunedLayout>& tuned) {
  if (tuned.empty()) return "";
  std::string out = "layouts of weights: times of the kernels that read them, over those now\n";
  char line[400];
  for (const TunedLayout& t : tuned) {
    out += "  " + t.job.role + ": " + to_string(t.job.now) + " now\n";
    if (!t.not_tried.empty()) out += "    " + t.not_tried + "\n";
    for (size_t i = 0; i < t.tried.size(); ++i) {
      const TriedLayout& l = t.tried[i];
      std::snprintf(line, sizeof line, "    %-18s", to_string(l.layout).c_str());
      out += line;
      for (size_t k = 0; k < l.outcomes.size(); ++k) {
        const TuneOutcome& o = l.outcomes[k];
        std::snprintf(line, sizeof line, " %s %s %.1f us, %.2f;", plan_name(t.job.kernels[k].plan),
                      t.job.kernels[k].stage.c_str(), o.after_us, o.after_us / o.before_us);
        out += line;
      }
      if (l.problem.empty()) {
        std::snprintf(line, sizeof line, " together %.3f", l.cost / t.job.cost_now());
        out += line;
      } else {
        out += " " + l.problem;
      }
      out += static_cast<int>(i) == t.best ? ", kept\n" : "\n";
    }
  }
  return out;
}

}  // namespace smelt
