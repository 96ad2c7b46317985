#include "engine/tune_trial.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "engine/kernel_builder.h"
#include "engine/tune_bench.h"
#include "engine/tune_judge.h"
#include "engine/tuned_options.h"

namespace smelt {
namespace {

constexpr int kFewestRounds = 5, kMostRounds = 200;
constexpr double kSeconds = 0.5;  // that all rounds should take together

double weight_bytes_of(const TuneSite& site) {
  const KernelCost cost = cost_of(site.tree, site.symbol_values());
  double bytes = 0;
  for (size_t i = 0; i < std::min(site.buffers.size(), cost.buffers.size()); ++i)
    if (site.buffers[i].is_weight) bytes += std::min(cost.buffers[i].read, static_cast<double>(site.buffers[i].bytes));
  return bytes;
}

// Why the output is not what it should be; empty if it is.
Result<std::string> problem_of(TuneJudge& judge, const TuneSite& site, const Executable* kernel) {
  SMELT_CHECK(site.prepare());
  SMELT_TRY(problem, judge.problem_with(kernel, site.launches[0]));
  if (!problem.empty()) return problem;
  SMELT_CHECK(site.prepare());
  SMELT_TRY(steady, judge.is_steady(kernel, site.launches[0]));
  return std::string(steady ? "" : "the output depends on the number of threads");
}

}  // namespace

Result<TrialOutcome> try_options(const TrialRequest& request) {
  const TuneSite& site = request.site;
  const KernelBuilder builder(request.device, site.symbol_names);
  if (const std::string reason = why_not_opts(site.tree, request.then, builder.machine()); !reason.empty())
    return Error{reason};
  TrialOutcome out{.program = builder.program(site.tree, site.name, request.then), .source = {}};
  out.source = builder.source(out.program);
  const std::array programs = {builder.program(site.tree, site.name, request.now), out.program};
  SMELT_TRY(kernels, builder.build(programs));
  SMELT_TRY(judge, TuneJudge::make(site, kernels[0], request.device));
  SMELT_TRY(problem, problem_of(judge, site, kernels[1]));
  if (!problem.empty()) return Error{"its output is wrong: " + problem};
  out.judged_elements = judge.elements();
  out.compared_bytes = judge.bytes();
  SMELT_TRY(bench, ColdBench::make(site, weight_bytes_of(site), request.device));
  SMELT_CHECK(site.prepare());
  const std::array timed = {TimedKernel{kernels[0], site.launches}, TimedKernel{kernels[1], site.launches}};
  const auto start = Clock::now();
  SMELT_CHECK(bench.run(timed, 1, request.cancel));
  const double round = std::max(seconds_since(start), 1e-7);
  const int rounds = std::clamp(static_cast<int>(kSeconds / round), kFewestRounds, kMostRounds);
  SMELT_TRY(samples, bench.run(timed, rounds, request.cancel));
  out.before_us = typical_of(samples[0]) * 1e6;
  out.after_us = typical_of(samples[1]) * 1e6;
  return out;
}

}  // namespace smelt
