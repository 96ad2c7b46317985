#include "app/profile_report.h"

#include <algorithm>
#include <cmath>

#include "app/bench_sample.h"
#include "app/text_of.h"
#include "base/progress.h"

namespace smelt {
namespace {

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string time_text(double seconds) {
  if (seconds < 1e-3) return text_of("%.1f us", seconds * 1e6);
  return seconds < 1 ? text_of("%.2f ms", seconds * 1e3) : text_of("%.2f s", seconds);
}

std::string machine_text(const MachineRates& m) {
  return text_of("%d %s: memory reads %.2f GB/s, ", m.threads,
                 m.threads == 1 ? "thread" : "threads", m.bytes_per_second / 1e9) +
         arithmetic_text(m.arithmetic) +
         text_of(" in f32, an empty launch takes %.2f us\n", m.barrier_seconds * 1e6) +
         sharing_note(m.arithmetic, m.cores);
}

std::string headline(const ProfiledPlan& plan, const MachineRates& m) {
  const double seconds = plan.seconds(), memory = rate(plan.bytes(), seconds) / m.bytes_per_second;
  const std::string unit =
      plan.name == "decode" ? "a token" : text_of("a prompt of %.0f tokens", plan.tokens);
  return plan.name + ": " + time_text(seconds) + " " + unit +
         text_of(" (%.1f tok/s in kernels), ", rate(plan.tokens, seconds)) +
         text_of("%.0f launches, ", plan.calls()) +
         bytes_text(static_cast<uint64_t>(plan.bytes())) +
         text_of(", %.2f GB/s, %.0f %% of the memory roofline; median of %d\n",
                 rate(plan.bytes(), seconds) / 1e9, memory * 100, plan.runs);
}

constexpr const char* kHeader =
    "  share  calls    us/call      GB/s   GFLOP/s  memory  arith.  kernel\n";

std::string kernel_lines(const ProfiledKernel& k, const MachineRates& m, double plan_seconds) {
  const double bytes = rate(k.bytes(), k.seconds), operations = rate(k.operations(), k.seconds);
  std::string out =
      text_of("%5.1f %% %6.1f %10.2f %9.2f %9.2f %5.0f %% %5.0f %%  %s\n",
              100 * rate(k.seconds, plan_seconds), k.calls, k.seconds_per_call() * 1e6, bytes / 1e9,
              operations / 1e9, 100 * bytes / m.bytes_per_second,
              100 * operations / m.arithmetic.most, k.name.c_str());
  out += "          " + k.stage + ": " + k.what + (k.lines.empty() ? "" : "; " + k.lines) + "\n";
  out += text_of("          options %s; %lld %s\n", k.options.c_str(),
                 static_cast<long long>(k.tasks), k.tasks == 1 ? "task" : "tasks");
  for (const std::string& advice : k.advice) out += "        ! " + advice + "\n";
  return out;
}

std::string part_line(const std::string& name, double seconds, double bytes, double calls,
                      const MachineRates& m, double plan_seconds) {
  return text_of("%5.1f %% %6.1f %10s %9.2f %15.0f %%          %s\n",
                 100 * rate(seconds, plan_seconds), calls, time_text(seconds).c_str(),
                 rate(bytes, seconds) / 1e9, 100 * rate(bytes, seconds) / m.bytes_per_second,
                 name.c_str());
}

bool alike(const ProfiledPart& a, const ProfiledPart& b) {
  return a.calls == b.calls && std::abs(a.bytes - b.bytes) < 1;
}

// Neighbouring layers that do the same are one line: their median and their extremes.
std::string layer_lines(const ProfiledPlan& plan, const MachineRates& m, double plan_seconds) {
  std::string out;
  for (size_t first = 0; first < plan.layers.size();) {
    size_t end = first;
    std::vector<double> seconds;
    double bytes = 0;
    for (; end < plan.layers.size() && alike(plan.layers[end], plan.layers[first]); ++end) {
      seconds.push_back(plan.layers[end].seconds);
      bytes += plan.layers[end].bytes;
    }
    const Sample s = sample_of(seconds);
    const double total = s.mean * static_cast<double>(s.count);
    std::string name = plan.layers[first].name;
    if (s.count > 1)
      name =
          text_of("layers %s to %s, each %s (%s to %s)", plan.layers[first].name.substr(6).c_str(),
                  plan.layers[end - 1].name.substr(6).c_str(), time_text(s.median).c_str(),
                  time_text(s.min).c_str(), time_text(s.max).c_str());
    out += part_line(name, total, bytes, plan.layers[first].calls * static_cast<double>(s.count), m,
                     plan_seconds);
    first = end;
  }
  return out;
}

std::string plan_text(const ProfiledPlan& plan, const MachineRates& m,
                      const ReportOptions& options) {
  const double seconds = plan.seconds();
  std::string out = headline(plan, m) + "\n" + kHeader;
  const size_t count = options.kernels > 0 ? std::min<size_t>(plan.kernels.size(),
                                                              static_cast<size_t>(options.kernels))
                                           : plan.kernels.size();
  double rest = 0;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (i < count)
      out += kernel_lines(plan.kernels[i], m, seconds);
    else
      rest += plan.kernels[i].seconds;
  }
  if (count < plan.kernels.size())
    out += text_of("%5.1f %%  in %zu more kernels (--all shows them)\n", 100 * rate(rest, seconds),
                   plan.kernels.size() - count);
  out += "\n  share  calls       time      GB/s           memory          stage\n";
  for (const ProfiledPart& p : plan.stages)
    out += part_line(p.name, p.seconds, p.bytes, p.calls, m, seconds);
  out += "\n  share  calls       time      GB/s           memory          layer\n";
  return out + layer_lines(plan, m, seconds);
}

// --- comparison

struct Change {
  std::string name;
  double before = 0, after = 0;  // seconds a token or prompt
  double size() const { return std::abs(after - before); }
};

std::string change_line(const Change& c) {
  const std::string ratio = c.before <= 0  ? "new"
                            : c.after <= 0 ? "gone"
                                           : text_of("%.2fx", c.after / c.before);
  return text_of("%12s %12s %12s %7s  ", time_text(c.before).c_str(), time_text(c.after).c_str(),
                 ((c.after < c.before ? "-" : "+") + time_text(c.size())).c_str(), ratio.c_str()) +
         c.name + "\n";
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
    changes.push_back({k.stage + ": " + k.what, old ? old->seconds : 0, k.seconds});
  }
  for (const ProfiledKernel& k : before.kernels)
    if (std::find(found.begin(), found.end(), &k) == found.end())
      changes.push_back({k.stage + ": " + k.what, k.seconds, 0});
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.size() > b.size(); });
  return changes;
}

std::vector<Change> stage_changes(const ProfiledPlan& before, const ProfiledPlan& after) {
  std::vector<Change> changes;
  for (const ProfiledPart& p : after.stages) changes.push_back({p.name, 0, p.seconds});
  for (const ProfiledPart& p : before.stages) {
    const auto same = std::find_if(changes.begin(), changes.end(),
                                   [&](const Change& c) { return c.name == p.name; });
    if (same != changes.end())
      same->before = p.seconds;
    else
      changes.push_back({p.name, p.seconds, 0});
  }
  return changes;
}

std::string plan_comparison(const ProfiledPlan& before, const ProfiledPlan& after) {
  std::string out = after.name + ", a " + (after.name == "decode" ? "token" : "prompt") +
                    ":\n      before        after       change   ratio\n";
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
  std::string out = profile.model + ", " + machine_text(profile.machine);
  for (const ProfiledPlan& plan : profile.plans)
    out += "\n" + plan_text(plan, profile.machine, options);
  return out;
}

std::string comparison(const Profile& before, const Profile& after) {
  std::string out = "before: " + before.model + ", " + machine_text(before.machine) +
                    "after:  " + after.model + ", " + machine_text(after.machine);
  for (const ProfiledPlan& plan : after.plans)
    for (const ProfiledPlan& old : before.plans)
      if (old.name == plan.name) out += "\n" + plan_comparison(old, plan);
  return out;
}

}  // namespace smelt
