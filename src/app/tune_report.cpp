#include "app/tune_report.h"

#include "app/text_of.h"
#include "engine/tuned_options.h"

namespace smelt {
namespace {

std::string milliseconds(double seconds) {
  return text_of(seconds < 1e-3 ? "%.3g us" : "%.3g ms", seconds < 1e-3 ? seconds * 1e6 : seconds * 1e3);
}

double saved_by(const TunedJob& t) {
  if (!t.problem.empty() || !t.outcome.improved || t.outcome.before_us <= 0) return 0;
  // By the plan's own time, which a launch among the others takes; the ratio is that of the search.
  return t.job.seconds * (1 - t.outcome.after_us / t.outcome.before_us);
}

std::string unit(const TunePlan& plan) {
  if (plan.tokens == 1) return "a token";
  return (plan.name == "decode" ? "a step of " : "a prompt of ") + std::to_string(plan.tokens) + " tokens";
}

std::string lines_of(const TunedJob& t) {
  const TuneOutcome& o = t.outcome;
  const std::string title = t.job.name + ", " + t.job.stage + ": " + t.job.what + "\n";
  if (!t.problem.empty())
    return text_of("%6d %10s %10s %8s %12s  ", t.job.calls, "", "", "", "not tuned") + title + "          " +
           t.problem + "\n";
  std::string out =
      text_of("%6d %10.1f %10.1f %7.2fx %12s  ", t.job.calls, o.before_us, o.improved ? o.after_us : o.before_us,
              o.improved ? o.before_us / o.after_us : 1.0, o.improved ? milliseconds(saved_by(t)).c_str() : "-") +
      title;
  out += text_of("          %d lists of options, %d hopeless, %d compiled and timed, %d wrong\n", o.counts.considered,
                 o.counts.hopeless, o.counts.compiled, o.counts.wrong);
  out += "          before  " + to_string(o.before) + "\n";
  if (o.improved) out += "          after   " + to_string(o.after) + "\n";
  for (const std::string& wrong : o.wrong) out += "          wrong   " + wrong + "\n";
  return out;
}

}  // namespace

std::string tune_plan_text(const std::vector<TunePlan>& plans, const std::vector<TuneJob>& jobs) {
  std::string out;
  for (const TunePlan& plan : plans) {
    out += plan.name + ": " + unit(plan) + " takes " + milliseconds(plan.seconds) +
           "\n  share  calls    us each   us memory  kernel\n";
    for (const TuneJob& j : jobs) {
      if (j.plan != plan.name) continue;
      out += text_of("%5.1f %% %6d %10.1f %11.1f  ", 100 * j.share, j.calls, j.seconds / j.calls * 1e6,
                     j.floor_seconds / j.calls * 1e6) +
             j.name + ", " + j.stage + ": " + j.what + "\n          " + j.options + "\n";
    }
  }
  return out;
}

std::string tune_report(const std::vector<TunePlan>& plans, const std::vector<TunedJob>& jobs) {
  std::string out;
  for (const TunePlan& plan : plans) {
    double saved = 0;
    std::string lines;
    for (const TunedJob& t : jobs) {
      if (t.job.plan != plan.name) continue;
      lines += lines_of(t);
      saved += saved_by(t);
    }
    if (lines.empty()) continue;
    out += plan.name + "\n calls  us before   us after    ratio   saves      kernel\n" + lines;
    const double after = plan.seconds - saved;
    out += plan.name + ": " + unit(plan) + " took " + milliseconds(plan.seconds) + " without tuned options, about " +
           milliseconds(after) + text_of(" with them: %.2fx\n", after > 0 ? plan.seconds / after : 1.0);
  }
  return out;
}

}  // namespace smelt
