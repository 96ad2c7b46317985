#include "app/profile_report.h"

#include <algorithm>
#include <cmath>

#include "app/bench_sample.h"
#include "app/text_of.h"
#include "app/wrapped.h"
#include "base/progress.h"

namespace smelt {
namespace {

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string time_text(double seconds) {
  if (seconds < 1e-3) return text_of("%.1f us", seconds * 1e6);
  return seconds < 1 ? text_of("%.2f ms", seconds * 1e3) : text_of("%.2f s", seconds);
}

std::string machine_text(const Profile& profile) {
  const MachineRates& m = profile.machine;
  const std::string whose = profile.estimated_for.empty()
                                ? text_of("%d %s", m.threads, m.threads == 1 ? "thread" : "threads")
                                : "estimated for " + profile.estimated_for + ", where nothing was run";
  return whose + text_of(": memory reads %.2f GB/s, ", m.bytes_per_second / 1e9) + arithmetic_text(m.arithmetic) +
         text_of(", an empty launch takes %.2f us", m.barrier_seconds * 1e6);
}

std::string headline(const ProfiledPlan& plan, const MachineRates& m, bool is_estimate) {
  const double seconds = plan.seconds(), memory = rate(plan.bytes(), seconds) / m.bytes_per_second;
  const std::string of_step = plan.tokens > 1 ? text_of("a step of %.0f tokens", plan.tokens) : "a token";
  const std::string unit = plan.name == "decode" ? of_step : text_of("a prompt of %.0f tokens", plan.tokens);
  const std::string text =
      plan.name + ": " + time_text(seconds) + " " + unit +
      text_of(" (%.1f tok/s in kernels), ", rate(plan.tokens, seconds)) +
      text_of("%.0f %s, ", plan.calls(), plan.calls() == 1 ? "launch" : "launches") +
      bytes_text(static_cast<uint64_t>(plan.bytes())) + text_of(", %.2f GB/s, ", rate(plan.bytes(), seconds) / 1e9) +
      (memory > 1 ? "more than memory gives: from caches" : share_text(memory) + " of the memory roofline") +
      (is_estimate ? "; estimated" : text_of("; median of %d", plan.runs));
  return wrapped(text, kReportWidth - 2, 2) + "\n";
}

// How evenly the workers share the work: who waits least holds up the others.
std::string waiting_lines(const std::vector<double>& waiting, bool details) {
  if (waiting.size() < 2) return "";
  const auto [least, most] = std::minmax_element(waiting.begin(), waiting.end());
  double mean = 0;
  for (double share : waiting) mean += share / static_cast<double>(waiting.size());
  std::string each = "worker by worker: ";
  for (size_t i = 0; i < waiting.size(); ++i) each += (i ? ", " : "") + text_of("%.0f %%", waiting[i] * 100);
  return wrapped(text_of("workers wait for each other %.0f %% of the time: worker %d least, %.0f %%, worker %d most, "
                         "%.0f %%",
                         mean * 100, static_cast<int>(least - waiting.begin()), *least * 100,
                         static_cast<int>(most - waiting.begin()), *most * 100),
                 kReportWidth - 2, 2) +
         "\n" + (details ? wrapped(each, kReportWidth - 2, 2) + "\n" : "");
}

constexpr const char* kHeader =
    "  share  calls   us each waits    GB/s  memory  GFLOP/s arithmetic    kernel, part: what it computes\n";

// "21 % int8"; "over int8": more than was measured; "int8" where nothing is known of it.
std::string arithmetic_text(const ArithmeticShare& a) {
  return a.share < 0 ? a.kind : (is_over(a.share) ? "over" : percent_text(a.share)) + " " + a.kind;
}

std::string detail_line(const std::string& text) { return "          " + wrapped(text, kReportWidth - 10, 12) + "\n"; }

// One line a kernel; `details` adds where it comes from, its options and what slows it down.
std::string kernel_lines(const ProfiledKernel& k, const ProfiledPlan& plan, const MachineRates& m, bool details) {
  const double bytes = rate(k.bytes(), k.seconds), operations = rate(k.operations(), k.seconds);
  const std::string waits = plan.waiting.empty() ? "" : share_text(rate(k.waiting, k.seconds));
  const std::string figures =
      text_of("%5.1f %% %6.1f %9.2f %5s %7.2f %7s %8.2f %10s  %s ", 100 * rate(k.seconds, plan.seconds()), k.calls,
              k.seconds_per_call() * 1e6, waits.c_str(), bytes / 1e9, share_text(bytes / m.bytes_per_second).c_str(),
              operations / 1e9, arithmetic_text(arithmetic_share(k, m)).c_str(), k.advice.empty() ? " " : "!");
  if (!details) return clipped(figures + k.name + ", " + k.stage + ": " + k.what, kReportWidth) + "\n";
  std::string out = figures + k.name + "\n" + detail_line(k.stage + ": " + k.what);
  if (!k.lines.empty()) out += detail_line("made by " + k.lines);
  out += detail_line("options " + k.options + "; " + std::to_string(k.tasks) + (k.tasks == 1 ? " task" : " tasks"));
  for (const std::string& advice : k.advice) out += "        ! " + wrapped(advice, kReportWidth - 10, 10) + "\n";
  return out;
}

std::string part_line(const ProfiledPart& part, const ProfiledPlan& plan, const MachineRates& m) {
  const double bytes = rate(part.bytes, part.seconds);
  const std::string waits = plan.waiting.empty() ? "" : share_text(rate(part.waiting, part.seconds));
  return text_of("%5.1f %% %6.1f %9s %5s %7.2f %7s  %s\n", 100 * rate(part.seconds, plan.seconds()), part.calls,
                 time_text(part.seconds).c_str(), waits.c_str(), bytes / 1e9,
                 share_text(bytes / m.bytes_per_second).c_str(), part.name.c_str());
}

bool alike(const ProfiledPart& a, const ProfiledPart& b) {
  return a.calls == b.calls && std::abs(a.bytes - b.bytes) < 1;
}

// Neighbouring layers that do the same are one line: their median and their extremes.
std::string layer_lines(const ProfiledPlan& plan, const MachineRates& m) {
  std::string out;
  for (size_t first = 0; first < plan.layers.size();) {
    size_t end = first;
    std::vector<double> seconds;
    ProfiledPart all{.name = plan.layers[first].name};
    for (; end < plan.layers.size() && alike(plan.layers[end], plan.layers[first]); ++end) {
      seconds.push_back(plan.layers[end].seconds);
      all.seconds += plan.layers[end].seconds;
      all.waiting += plan.layers[end].waiting;
      all.bytes += plan.layers[end].bytes;
      all.calls += plan.layers[end].calls;
    }
    const Sample s = sample_of(seconds);
    if (s.count > 1)
      all.name = text_of("layers %s to %s, each %s (%s to %s)", plan.layers[first].name.substr(6).c_str(),
                         plan.layers[end - 1].name.substr(6).c_str(), time_text(s.median).c_str(),
                         time_text(s.min).c_str(), time_text(s.max).c_str());
    out += part_line(all, plan, m);
    first = end;
  }
  return out;
}

std::string plan_text(const ProfiledPlan& plan, const Profile& profile, const ReportOptions& options) {
  const MachineRates& m = profile.machine;
  const double seconds = plan.seconds();
  std::string out =
      headline(plan, m, !profile.estimated_for.empty()) + waiting_lines(plan.waiting, options.details) + "\n" + kHeader;
  const size_t count = options.kernels > 0 ? std::min<size_t>(plan.kernels.size(), static_cast<size_t>(options.kernels))
                                           : plan.kernels.size();
  double rest = 0;
  bool has_advice = false, has_over = false;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    has_advice = has_advice || (i < count && !plan.kernels[i].advice.empty());
    has_over = has_over || (i < count && is_over(arithmetic_share(plan.kernels[i], m).share));
    if (i < count)
      out += kernel_lines(plan.kernels[i], plan, m, options.details);
    else
      rest += plan.kernels[i].seconds;
  }
  if (count < plan.kernels.size())
    out += text_of("%5.1f %%  in %zu more %s (--all shows them)\n", 100 * rate(rest, seconds),
                   plan.kernels.size() - count, plan.kernels.size() - count == 1 ? "kernel" : "kernels");
  if (has_advice && !options.details) out += "! --details says what slows such a kernel down\n";
  if (has_over)
    out +=
        "over: more than arithmetic reached when it was measured; the clock, or other work on these cores, differed\n";
  out += "\n  share  calls      time waits    GB/s  memory  stage\n";
  for (const ProfiledPart& p : plan.stages) out += part_line(p, plan, m);
  out += "\n  share  calls      time waits    GB/s  memory  layer\n";
  return out + layer_lines(plan, m);
}

// --- comparison

struct Change {
  std::string name;
  double before = 0, after = 0;  // seconds a token or prompt
  double size() const { return std::abs(after - before); }
};

std::string change_line(const Change& c) {
  const std::string ratio = c.before <= 0 ? "new" : c.after <= 0 ? "gone" : text_of("%.2fx", c.before / c.after);
  const std::string figures = text_of("%12s %12s %12s %7s  ", time_text(c.before).c_str(), time_text(c.after).c_str(),
                                      ((c.after < c.before ? "-" : "+") + time_text(c.size())).c_str(), ratio.c_str());
  return clipped(figures + c.name, kReportWidth) + "\n";
}

const ProfiledKernel* find(const std::vector<ProfiledKernel>& kernels, const ProfiledKernel& like) {
  for (const ProfiledKernel& k : kernels)
    if (k.name == like.name) return &k;
  for (const ProfiledKernel& k : kernels)
    if (k.what == like.what) return &k;  // the same work in other code
  return nullptr;
}

std::vector<Change> kernel_changes(const ProfiledPlan& before, const ProfiledPlan& after) {
  std::vector<Change> changes;
  std::vector<const ProfiledKernel*> found;
  for (const ProfiledKernel& k : after.kernels) {
    const ProfiledKernel* old = find(before.kernels, k);
    if (std::find(found.begin(), found.end(), old) != found.end()) old = nullptr;
    if (old) found.push_back(old);
    changes.push_back({k.name + ", " + k.stage + ": " + k.what, old ? old->seconds : 0, k.seconds});
  }
  for (const ProfiledKernel& k : before.kernels)
    if (std::find(found.begin(), found.end(), &k) == found.end())
      changes.push_back({k.name + ", " + k.stage + ": " + k.what, k.seconds, 0});
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.size() > b.size(); });
  return changes;
}

std::vector<Change> stage_changes(const ProfiledPlan& before, const ProfiledPlan& after) {
  std::vector<Change> changes;
  for (const ProfiledPart& p : after.stages) changes.push_back({p.name, 0, p.seconds});
  for (const ProfiledPart& p : before.stages) {
    const auto same = std::find_if(changes.begin(), changes.end(), [&](const Change& c) { return c.name == p.name; });
    if (same != changes.end())
      same->before = p.seconds;
    else
      changes.push_back({p.name, p.seconds, 0});
  }
  return changes;
}

std::string plan_comparison(const ProfiledPlan& before, const ProfiledPlan& after) {
  std::string out = after.name + ", a " + (after.name == "decode" ? "token" : "prompt") +
                    ":\n      before        after       change   speed\n";
  if (before.tokens != after.tokens)
    out = text_of("note: %.0f tokens before, %.0f after\n", before.tokens, after.tokens) + out;
  out += change_line({"everything", before.seconds(), after.seconds()});
  out += "stages\n";
  for (const Change& c : stage_changes(before, after)) out += change_line(c);
  out += "kernels, the largest change first\n";
  for (const Change& c : kernel_changes(before, after)) out += change_line(c);
  return out;
}

}  // namespace

std::string report(const Profile& profile, const ReportOptions& options) {
  std::string out = wrapped(profile.model + ", " + machine_text(profile), kReportWidth - 2, 2) + "\n" +
                    wrapped(sharing_note(profile.machine.arithmetic, profile.machine.cores), kReportWidth, 0);
  if (out.back() != '\n') out += "\n";
  for (const ProfiledPlan& plan : profile.plans) out += "\n" + plan_text(plan, profile, options);
  return out;
}

std::string comparison(const Profile& before, const Profile& after) {
  std::string out = "before: " + before.model + ", " + machine_text(before) + "\nafter:  " + after.model + ", " +
                    machine_text(after) + "\n";
  for (const ProfiledPlan& plan : after.plans)
    for (const ProfiledPlan& old : before.plans)
      if (old.name == plan.name) out += "\n" + plan_comparison(old, plan);
  return out;
}

}  // namespace smelt
