#include "app/viz/print.h"

#include <algorithm>
#include <functional>
#include <map>

#include "app/profile_report.h"
#include "app/statistics.h"
#include "app/text_of.h"
#include "base/progress.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

class Printer {
 public:
  Printer(const Json& recording, const PrintOptions& options) : r_(recording), options_(options) {}

  Result<std::string> model() const {
    SMELT_TRY(profile, profile_in(r_));
    return report(profile, {.kernels = static_cast<int>(options_.top)});
  }

  // Passes of a kernel: nodes that it leaves, rules that fired.
  Result<std::string> rewrites() const {
    std::string out;
    for (const Json& kernel : named()) {
      out += name(kernel) + "\n";
      for (const Json& pass : kernel["passes"]) out += pass_line(pass) + rule_lines(pass);
    }
    return found(out);
  }

  Result<std::string> schedule() const {
    std::string out;
    for (size_t i = 0; i < r_["segments"].size(); ++i) {
      const Json& segment = r_["segments"][i];
      out += text_of("segment %zu, %s: %zu kernels, arena %s\n", i, text(segment["stage"]).c_str(),
                     segment["kernels"].size(), bytes_text(segment["arena"].get<uint64_t>()).c_str());
      for (const Json& kernel : segment["kernels"]) out += "  " + name(r_["kernels"][kernel.get<size_t>()]) + "\n";
      for (const Json& place : segment["places"]) {
        const Json& node = r_["nodes"][place[0].get<size_t>()];
        out += "    " + string(node[0]) + " " + where(string(place[1])) + ": " + string(place[2]) +
               (node.size() > 8 ? " (" + string(node[8]) + ")" : "") + "\n";
      }
    }
    return found(out);
  }

  // One kernel with all its texts, or a list of them.
  Result<std::string> kernel() const {
    const std::vector<Json> kernels = named();
    std::string out;
    if (options_.kernel.empty() || kernels.size() > 1) {
      for (const Json& k : kernels) out += name(k) + "\n";
      return found(out);
    }
    for (const Json& k : kernels) {
      out += name(k) + "\noptions of each nest\n";
      for (const Json& nest : k["options"]) out += "  " + text(nest) + "\n";
      for (const Json& tried : k["tried"])
        if (const std::string why = string(tried[2]); !why.empty())
          out += "  refused " + string(tried[1]) + ": " + why + "\n";
      for (const char* form : {"program", "source", "assembly"})
        out += std::string("\n--- ") + form + "\n" + text(k[form]);
    }
    return found(out);
  }

  Result<std::string> timeline() const {
    if (!r_.contains("timeline")) return missing("timeline");
    std::string out;
    for (const Json& stage : r_.value("start", Json::array()))
      out += text_of("start: %-10s %8.3f s, %lld page faults, %lld of them from the disk\n",
                     text(stage["name"]).c_str(), stage["end"].get<double>() - stage["begin"].get<double>(),
                     static_cast<long long>(stage["minor_faults"].get<double>() + stage["major_faults"].get<double>()),
                     static_cast<long long>(stage["major_faults"].get<double>()));
    for (size_t plan = 0; plan < r_["plans"].size(); ++plan) out += stage_times(plan);
    return found(out);
  }

  // Each kernel that was searched: what was gained, then how the best lists of options compare with the heuristic's.
  Result<std::string> search() const {
    if (!r_.contains("search")) return missing("search");
    std::string out;
    for (const Json& s : r_["search"])
      if (text(s["kernel"]).find(options_.kernel) != std::string::npos) out += search_lines(s);
    return found(out);
  }

  static Result<Profile> profile_in(const Json& recording) {
    if (!recording.contains("profile")) return Error{"[viz] --print: this recording has no times"};
    return profile_of(recording["profile"]);
  }

 private:
  static std::string text(const Json& json) { return json.get<std::string>(); }
  std::string string(const Json& number) const { return text(r_["strings"][number.get<size_t>()]); }
  static std::string name(const Json& kernel) { return text(kernel["name"]); }
  static std::string where(const std::string& place) {
    return place == "memory" ? "gets memory"
           : place == "chip" ? "on chip"
           : place == "tile" ? "in its tile"
                             : "computed again";
  }
  static Error missing(const std::string& what) {
    return {"[viz] --print " + what + ": this recording has none; docs/visualiser.md says how to make one"};
  }
  Result<std::string> found(const std::string& out) const {
    if (out.empty() && !options_.kernel.empty())
      return Error{"[viz] --kernel " + options_.kernel + ": no kernel has this in its name"};
    if (out.empty()) return missing(options_.view);
    return out;
  }

  std::vector<Json> named() const {
    std::vector<Json> out;
    for (const Json& kernel : r_["kernels"]) {
      if (name(kernel) == options_.kernel) return {kernel};
      const bool fits = name(kernel).find(options_.kernel) != std::string::npos;
      if (fits && (!options_.kernel.empty() || !options_.top || out.size() < options_.top)) out.push_back(kernel);
    }
    return out;
  }

  static std::string pass_line(const Json& pass) {
    return text_of("  nest %lld, %s: %zu roots, %.0f rules fired%s\n",
                   static_cast<long long>(pass["nest"].get<int64_t>()), text(pass["name"]).c_str(),
                   pass["roots"].size(), pass["fired"].get<double>(),
                   pass.contains("fault") ? (", FAULT: " + text(pass["fault"])).c_str() : "");
  }

  // Most frequent first.
  std::string rule_lines(const Json& pass) const {
    std::map<std::string, double> times;
    for (const Json& rule : pass["rules"]) times[string(rule[0])] += rule[3].get<double>();
    std::vector<std::pair<std::string, double>> sorted(times.begin(), times.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string out;
    for (size_t i = 0; i < sorted.size() && (!options_.top || i < options_.top); ++i)
      out += text_of("    %6.0f  %s\n", sorted[i].second, sorted[i].first.c_str());
    return out;
  }

  std::string search_lines(const Json& s) const {
    const std::string layout = text(s["layout"]), problem = text(s["problem"]);
    std::string out = text(s["kernel"]) + ", " + text(s["plan"]) + " " + text(s["stage"]) +
                      (layout.empty() ? "" : ", weights as " + layout) + "\n";
    if (!problem.empty()) return out + "  not tuned: " + problem + "\n";
    out += text_of("  %.1f us, then %.1f; %.0f lists of options, %.0f compiled, %.0f wrong\n",
                   s["before_us"].get<double>(), s["after_us"].get<double>(), s["considered"].get<double>(),
                   s["compiled"].get<double>(), s["wrong"].get<double>());
    std::vector<const Json*> timed;
    for (const Json& trial : s["trials"])
      if (trial[3].get<double>() > 0) timed.push_back(&trial);
    std::stable_sort(timed.begin(), timed.end(), [](const Json* a, const Json* b) { return (*a)[3] < (*b)[3]; });
    for (size_t i = 0; i < timed.size() && (!options_.top || i < options_.top); ++i)
      out += text_of("  %6.3f of its time, estimate %8.1f us  ", (*timed[i])[3].get<double>(),
                     (*timed[i])[2].get<double>()) +
             text((*timed[i])[5]) + "\n";
    return out;
  }

  // Of each stage of a plan, over its runs: what it took.
  std::string stage_times(size_t plan) const {
    const Json& launches = r_["plans"][plan]["launches"];
    std::map<std::string, std::vector<double>> by_stage;
    double busy = 0, spent = 0;
    for (const Json& run : r_["timeline"]["runs"]) {
      if (run["plan"].get<size_t>() != plan) continue;
      std::map<std::string, double> sums;
      for (size_t i = 0; i < launches.size(); ++i) sums[string(launches[i][4])] += run["times"][i].get<double>() * 1e-3;
      for (const auto& [stage, us] : sums) by_stage[stage].push_back(us);
      for (const Json& worker : run.value("workers", Json::array()))
        for (size_t i = 0; i < launches.size(); ++i)
          busy += worker[i].get<double>(), spent += run["times"][i].get<double>();
    }
    if (by_stage.empty()) return "";
    std::string out = text(r_["plans"][plan]["name"]) + ": stage, microseconds of a run: least, median, 90 %, most\n";
    for (auto& [stage, us] : by_stage) {
      std::sort(us.begin(), us.end());
      const auto at = [&](double share) { return us[static_cast<size_t>(share * static_cast<double>(us.size() - 1))]; };
      out += text_of("  %-14s %10.1f %10.1f %10.1f %10.1f\n", stage.c_str(), at(0), at(0.5), at(0.9), at(1));
    }
    if (spent > 0) out += text_of("  workers wait for each other %.1f %% of the time\n", 100 * (1 - busy / spent));
    return out;
  }

  const Json& r_;
  const PrintOptions& options_;
};

}  // namespace

Result<std::string> print_view(const std::vector<Json>& recordings, const PrintOptions& options) {
  const Printer printer(recordings[0], options);
  if (options.view == "compare") {
    if (recordings.size() < 2)
      return Error{"[viz] --print compare: give two recordings, smelt viz BEFORE.json AFTER.json"};
    SMELT_TRY(before, Printer::profile_in(recordings[0]));
    SMELT_TRY(after, Printer::profile_in(recordings[1]));
    return comparison(before, after);
  }
  if (options.view == "model") return printer.model();
  if (options.view == "rewrites") return printer.rewrites();
  if (options.view == "schedule") return printer.schedule();
  if (options.view == "kernel") return printer.kernel();
  if (options.view == "search") return printer.search();
  return printer.timeline();
}

}  // namespace smelt
