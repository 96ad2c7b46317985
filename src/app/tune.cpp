// `smelt tune`: a search for better options of the kernels that a model spends its time in, and better layouts of the
// weights that they read.
#include "engine/tune.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "app/checks.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/interrupt.h"
#include "app/model_source.h"
#include "app/profile_machine.h"
#include "app/profile_words.h"
#include "app/random_tokens.h"
#include "app/session_tokens.h"
#include "app/sources.h"
#include "app/stopwatch.h"
#include "app/tune_json.h"
#include "app/tune_layouts.h"
#include "app/tune_report.h"
#include "app/tune_times.h"
#include "base/new_file.h"
#include "base/output_file.h"
#include "base/progress.h"
#include "engine/tune_child.h"
#include "engine/tuned_options.h"
#include "runtime/devices.h"

namespace smelt {
namespace {

constexpr int kDecoded = 12;           // tokens that are timed
constexpr double kWorthwhile = 0.005;  // share of a plan below which a kernel is left alone
constexpr double kShortPrompt = 2;     // seconds: read it once more, with everything warm
constexpr double kFewestSeconds = 2;   // for one kernel
constexpr double kLayoutShare = 0.4;   // of the time, for layouts
constexpr uint64_t kPerMille = 1000;

constexpr const char* kExplanation =
    "Searches for better options of the kernels that the model spends its time in, the costliest "
    "first: compiles what looks\n"
    "promising, compares its output with the reference, times it with cold weights in turns with "
    "the kernel as it is without\n"
    "tuning. Then the same for weights in other layouts. What is faster is kept for this "
    "device, "
    "and every later start uses\n"
    "it. Ctrl-C ends the search and keeps what was found so far. Let the machine do nothing else "
    "meanwhile.\n"
    "\nExamples:\n"
    "  smelt tune -m model.gguf                    ten minutes, shared out by what kernels cost\n"
    "  smelt tune -m model.gguf --minutes 60       longer\n"
    "  smelt tune -m model.gguf --device cpu       for the processor, where there is a GPU too\n"
    "  smelt tune -m model.gguf --dry-run          what would be searched\n"
    "  smelt tune -m model.gguf --json tried.json  save what was tried; smelt viz tried.json shows it\n"
    "  smelt tune --synthetic glm-4.7-flash:q4_0   before its file is there: it has the same kernels\n"
    "  smelt tune -m model.gguf --plan decode --parallel 8   for a server with 8 clients at once\n"
    "  smelt tune -m model.gguf --kernel sum_256   kernels with this in their names, as `smelt profile` gives them\n";

struct TuneFlags {
  EngineFlags engine;
  std::string synthetic;  // in place of engine.model, unless empty
  double minutes = 10;
  int64_t prompt_tokens = 256;
  int64_t parallel = 1;
  std::string plan = "both";
  std::string kernel;
  std::string json;  // where all trials go; empty: nowhere
  bool no_layouts = false;
  bool dry_run = false;
};

class TuneRun {
 public:
  TuneRun(const TuneFlags& flags, const GgufFile& file, Session& session, const MachineRates& machine)
      : flags_(flags),
        session_(session),
        machine_(machine),
        tokens_(random_tokens(session, flags.parallel * (flags.prompt_tokens + kDecoded))),
        sequences_{session.sequence()},
        layouts_{session, file, times_, machine, [this](PlanKind plan) { return make_ready(plan); }} {}

  // Runs both plans and lists the kernels that are worth a search, those of decode first.
  Status survey() {
    session_.loaded().observe([this](const RunTimes& run) { times_[run.plan].add(run); });
    SMELT_CHECK(decode());
    if (wants("decode")) list(decode_kind(), "decode");
    if (wants("prefill") && prompt().size() > 1) list(prefill_kind(), "prefill");
    session_.loaded().observe({});
    if (wants_layouts()) layout_jobs_ = layout_jobs(layouts_, flags_.kernel);
    if (jobs_.empty() && !flags_.kernel.empty())
      return Error{"[tune] " + flags_.kernel + ": no kernel of these plans has this in its name; --dry-run lists them"};
    return {};
  }

  const std::vector<TuneJob>& jobs() const { return jobs_; }
  const std::vector<TunePlan>& plans() const { return plans_; }
  const std::vector<LayoutJob>& layout_jobs_found() const { return layout_jobs_; }

  // Keeps each gain as soon as it is found.
  Result<std::vector<TunedJob>> tune(const std::string& path) {
    const TunedOptions known = TunedOptions::load(device().machine());
    std::vector<TunedJob> done;
    Stopwatch watch;
    double left = flags_.minutes * 60 * (layout_jobs_.empty() ? 1 : 1 - kLayoutShare), shares = 0;
    for (const TuneJob& j : jobs_) shares += j.share;
    for (size_t i = 0; i < jobs_.size() && !interrupted() && left > 0; ++i) {
      const TuneJob& job = jobs_[i];
      SMELT_CHECK(make_ready(kind_of(job)));
      const double seconds = std::max(left * job.share / shares, kFewestSeconds);
      Result<TuneOutcome> outcome = searched([&] { return tune(job, i, known, seconds); });
      done.push_back(outcome ? TunedJob{job, outcome.take(), ""} : TunedJob{job, {}, outcome.error().message});
      SMELT_CHECK(keep(done.back(), known, path));
      note_ratio(done.back());
      shares -= job.share;
      const double taken = watch.lap();
      left -= taken;
      spent_ += taken;
    }
    return done;
  }

  // Keeps each layout as soon as all of its kernels were judged. A kernel that reads a weight whose layout has just
  // changed is no longer what its launches were timed as, so that its other weights wait for another tune.
  Result<std::vector<TunedLayout>> tune_layouts(const std::string& path) {
    std::vector<TunedLayout> done;
    Stopwatch watch;
    double left = std::min(flags_.minutes * 60 * kLayoutShare, flags_.minutes * 60 - spent_), shares = 0;
    for (const LayoutJob& j : layout_jobs_) shares += j.share();
    std::set<std::pair<PlanKind, int>> changed;
    for (size_t i = 0; i < layout_jobs_.size() && !interrupted() && left > 0; ++i) {
      LayoutJob job = layout_jobs_[i];
      bool waits = false;
      for (RoleKernel& k : job.kernels) {
        waits = waits || changed.count({k.plan, k.kernel}) > 0;
        if (const auto found = best_ratio_.find(k.name); found != best_ratio_.end()) k.best_ratio = found->second;
      }
      if (waits) {
        done.push_back({.job = job, .not_tried = "a kernel has changed; the next tune tries these"});
        continue;
      }
      const std::string what = "layout " + std::to_string(i + 1) + " of " + std::to_string(layout_jobs_.size());
      SMELT_TRY(tuned, tune_layout(layouts_, job, left * job.share() / shares, what));
      const std::vector<TunedEntry> entries = entries_of(tuned);
      if (!entries.empty()) {
        SMELT_CHECK(remember_tuned(path, entries));
        for (const RoleKernel& k : job.kernels) changed.insert({k.plan, k.kernel});
      }
      done.push_back(std::move(tuned));
      shares -= job.share();
      left -= watch.lap();
    }
    return done;
  }

 private:
  const Device& device() const { return session_.loaded().device(); }

  // On the processor in a child: what that does to the session's memory is its own, so that the inputs stay in place
  // here. A GPU belongs to one process, which it leaves with other inputs.
  Result<TuneOutcome> searched(const std::function<Result<TuneOutcome>()>& search) {
    if (is_processor(device().name())) return in_child(search);
    ready_.reset();
    return search();
  }

  // Those of a prompt and those of a token are judged together. The weights of a GPU lie as its own kernels want them.
  bool wants_layouts() const {
    return is_processor(device().name()) && !flags_.no_layouts && !flags_.engine.no_repack && flags_.plan == "both" &&
           !times_[prefill_kind()].empty();
  }
  // Of a chunk of the prompt.
  PlanKind prefill_kind() const {
    return session_.loaded().plans().is_long_prompt(flags_.prompt_tokens) ? PlanKind::LongPrefill : PlanKind::Prefill;
  }
  // At the end of decode().
  PlanKind decode_kind() const {
    const ModelPlans& plans = session_.loaded().plans();
    const auto tokens = static_cast<uint64_t>(std::min(flags_.parallel, plans.layout().batch));
    return plans.decode_kind(static_cast<int64_t>(std::bit_ceil(tokens)), flags_.prompt_tokens + kDecoded);
  }
  PlanKind kind_of(const TuneJob& job) const { return job.plan == "decode" ? decode_kind() : prefill_kind(); }

  // Puts the inputs of a plan's launches in place.
  Status make_ready(PlanKind plan) {
    const bool for_decode = plan == decode_kind();
    if (ready_ && *ready_ == for_decode) return {};
    SMELT_CHECK(for_decode ? decode() : prefill());
    ready_ = for_decode;
    return {};
  }

  void note_ratio(const TunedJob& tuned) {
    if (tuned.problem.empty() && tuned.outcome.improved)
      best_ratio_[tuned.job.name] = tuned.outcome.after_us / tuned.outcome.before_us;
  }

  bool wants(const char* plan) const { return flags_.plan == "both" || flags_.plan == plan; }
  std::span<const int32_t> prompt() const {
    return std::span(tokens_).first(static_cast<size_t>(flags_.prompt_tokens));
  }

  Status append(std::span<const int32_t> tokens) {
    SMELT_TRY(logits, session_.append(tokens, &interrupted()));
    (void)logits;
    return {};
  }

  Status prefill() {
    session_.reset();
    return prompt().empty() ? Status() : append(prompt());
  }

  // The other sequences anew, each with a context of its own.
  Status start_sequences() {
    Engine& engine = session_.engine();
    for (size_t i = 1; i < sequences_.size(); ++i) engine.stop(sequences_[i]);
    sequences_.resize(1);
    while (std::ssize(sequences_) < flags_.parallel) {
      SMELT_TRY(started, engine.start());
      sequences_.push_back(started.id);
    }
    const auto others = std::span(sequences_).subspan(1);
    const size_t context = prompt().size();
    if (others.empty() || context == 0) return {};
    return smelt::append(engine, others, std::span(tokens_).subspan(context, others.size() * context));
  }

  // A prompt and some tokens behind it, of each sequence.
  Status decode() {
    Stopwatch watch;
    SMELT_CHECK(prefill());
    if (watch.lap() < kShortPrompt) {
      times_[prefill_kind()].forget();
      SMELT_CHECK(prefill());
    }
    SMELT_CHECK(start_sequences());
    const size_t count = sequences_.size();
    std::span<const int32_t> rest = std::span(tokens_).last(kDecoded * count);
    for (; !rest.empty() && !interrupted(); rest = rest.subspan(count))
      SMELT_CHECK(extend_once(session_.engine(), sequences_, rest.first(count)));
    return {};
  }

  void list(PlanKind kind, const std::string& name) {
    const PlanTimes& times = times_[kind];
    if (times.empty()) return;
    const std::vector<PlanLaunch> launches = session_.loaded().launches(kind);
    TunePlan plan{name, kind == decode_kind() ? flags_.parallel : times.tokens()};
    std::map<int, TuneJob> jobs;
    std::string stage;
    for (size_t i = 0; i < launches.size(); ++i) {
      const PlanLaunch& launch = launches[i];
      TuneJob& job = jobs[launch.kernel];
      stage = stage_of(launch, stage);
      if (job.calls == 0) job = job_of(launch, name, stage, times);
      ++job.calls;
      job.seconds += times.seconds(i);
      plan.seconds += times.seconds(i);
    }
    std::vector<TuneJob> chosen;
    for (auto& [kernel, job] : jobs) {
      job.share = job.seconds / plan.seconds;
      job.floor_seconds *= job.calls;
      const bool named = !flags_.kernel.empty();
      if (named ? job.name.find(flags_.kernel) != std::string::npos : job.share >= kWorthwhile) chosen.push_back(job);
    }
    std::sort(chosen.begin(), chosen.end(), [](const TuneJob& a, const TuneJob& b) { return a.seconds > b.seconds; });
    jobs_.insert(jobs_.end(), chosen.begin(), chosen.end());
    plans_.push_back(plan);
  }

  TuneJob job_of(const PlanLaunch& launch, const std::string& plan, const std::string& stage,
                 const PlanTimes& times) const {
    const KernelDescription kernel = session_.loaded().kernel(launch.kernel);
    BufferContents positions;
    for (size_t i = 0; i < launch.buffers.size(); ++i)
      if (launch.buffers[i].name == "positions")
        positions[static_cast<int64_t>(i)] = times.position() + times.tokens() / 2;
    const KernelCost cost = cost_of(kernel.tree, times.symbols(), positions);
    double bytes = 0;
    for (size_t i = 0; i < std::min(cost.buffers.size(), launch.buffers.size()); ++i)
      bytes += std::min(cost.buffers[i].read + cost.buffers[i].written, static_cast<double>(launch.buffers[i].bytes));
    return {.plan = plan,
            .stage = stage,
            .what = launch_in_words(launch, kernel.tree, cost),
            .name = kernel.name,
            .kernel = launch.kernel,
            .floor_seconds = machine_.bytes_per_second > 0 ? bytes / machine_.bytes_per_second : 0,
            .options = to_string(kernel.opts)};
  }

  Result<TuneOutcome> tune(const TuneJob& job, size_t number, const TunedOptions& known, double seconds) {
    const PlanKind kind = kind_of(job);
    SMELT_TRY(device,
              open_device({.name = name_of(device(), flags_.engine), .threads = machine_.threads, .use_cache = false}));
    const PlanSites sites(session_, kind, times_[kind].symbols(), *device,
                          static_cast<double>(session_.stats().bytes_per_token));
    const TuneSite site = sites.site(job.kernel);
    Progress bar("tuning " + std::to_string(number + 1) + " of " + std::to_string(jobs_.size()) + ", " + job.plan +
                     " " + job.stage,
                 kPerMille, ProgressUnit::parts);
    TuneRequest request{.site = site,
                        .device = *device,
                        .bytes_per_second = machine_.bytes_per_second,
                        .limits = {.seconds = seconds},
                        .cancel = &interrupted(),
                        .progress = [&](double fraction) { bar.set(static_cast<uint64_t>(fraction * kPerMille)); }};
    if (const TunedEntry* entry = known.find(site.tree)) request.known = {entry->opts};
    return tune_kernel(request);
  }

  // A gain goes into the database; an entry that has become worthless goes out of it.
  Status keep(const TunedJob& tuned, const TunedOptions& known, const std::string& path) const {
    const Ref tree = session_.loaded().kernel(tuned.job.kernel).tree;
    const TuneOutcome& outcome = tuned.outcome;
    const TunedEntry entry{.kernel = kernel_hash(tree),
                           .device = device_text(device().machine()),
                           .compiler = compiler_text(),
                           .program = outcome.program,
                           .before_us = outcome.before_us,
                           .after_us = outcome.after_us,
                           .name = tuned.job.name,
                           .opts = outcome.after};
    if (tuned.problem.empty() && outcome.improved) return remember_tuned(path, {&entry, 1});
    const bool worthless = known.find(tree) && (!tuned.problem.empty() || !outcome.interrupted);
    return worthless ? forget_tuned(path, {&entry, 1}) : Status();
  }

  const TuneFlags& flags_;
  Session& session_;
  const MachineRates& machine_;
  const std::vector<int32_t> tokens_;  // contexts of all sequences, then what each step has
  std::vector<SequenceId> sequences_;  // that decode side by side
  mutable std::map<PlanKind, PlanTimes> times_;
  const LayoutTuning layouts_;
  std::optional<bool> ready_;                 // the inputs of a token are in place, or those of a prompt
  double spent_ = 0;                          // seconds, on kernels
  std::map<std::string, double> best_ratio_;  // by kernel: with tuned options to without
  std::vector<LayoutJob> layout_jobs_;
  std::vector<TunePlan> plans_;
  std::vector<TuneJob> jobs_;
};

Result<std::string> database(bool dry_run) {
  SMELT_TRY(path, tuned_file());
  if (path.empty() && !dry_run)
    return Error{
        "[tune] SMELT_CACHE: off, so there is no place to keep options in; set it to a folder, or "
        "use --dry-run"};
  if (dry_run) return path;
  // Better now than after the search.
  if (const auto tried = NewFile::create(path); !tried)
    return Error{tried.error().message + "; what is found could not be kept, so make room or set SMELT_CACHE"};
  return path;
}

Result<std::optional<OutputFile>> place_for_trials(const TuneFlags& flags) {
  if (flags.json.empty()) return std::optional<OutputFile>();
  SMELT_TRY(file, OutputFile::open(flags.json));
  return std::optional<OutputFile>(std::move(file));
}

Result<int> run_tune(const TuneFlags& flags) {
  SMELT_TRY(path, database(flags.dry_run));
  SMELT_TRY(json, place_for_trials(flags));
  SMELT_TRY(model, ModelSource::open(flags.engine, flags.synthetic));
  const GgufFile& file = model.file();
  if (flags.synthetic.empty()) SMELT_CHECK(check_is_no_source("tune", flags.json, files_of(file)));
  EngineOptions options = session_options(flags.engine);
  // What is compared with is the heuristic's choice, over the layouts that were found before.
  options.only_tuned_layouts = true;
  options.sequences = flags.parallel;
  SMELT_TRY(session, open_session(file, options));
  SMELT_TRY(machine, measure_device(session->loaded().device().name(), flags.engine.threads));
  if (flags.prompt_tokens + kDecoded > session->context())
    return Error{"[tune] " + std::to_string(flags.prompt_tokens + kDecoded) + " tokens do not fit a context of " +
                 std::to_string(session->context()) +
                 "; make it longer with -c, or the prompt shorter with --prompt-tokens"};
  (void)interrupted();
  TuneRun run(flags, file, *session, machine);
  const Status surveyed = run.survey();
  if (interrupted()) {
    std::fprintf(stderr, "stopped: interrupted while timing the kernels; nothing was searched yet\n");
    return kExitInterrupted;
  }
  SMELT_CHECK(surveyed);
  if (flags.dry_run) {
    std::fputs(tune_plan_text(run.plans(), run.jobs()).c_str(), stdout);
    std::fputs(layout_plan_text(run.layout_jobs_found()).c_str(), stdout);
    return 0;
  }
  SMELT_TRY(done, run.tune(path));
  std::fputs(tune_report(run.plans(), done).c_str(), stdout);
  if (done.size() < run.jobs().size())
    std::printf("%zu of %zu kernels were searched; %s\n", done.size(), run.jobs().size(),
                interrupted() ? "then it was interrupted" : "the others had no time left");
  SMELT_TRY(layouts, run.tune_layouts(path));
  std::fputs(layout_report(layouts).c_str(), stdout);
  const bool any = std::any_of(done.begin(), done.end(), [](const TunedJob& t) { return t.outcome.improved; }) ||
                   std::any_of(layouts.begin(), layouts.end(), [](const TunedLayout& t) { return t.best >= 0; });
  if (any) std::printf("kept in %s\n", path.c_str());
  if (json)
    SMELT_CHECK(json->write(text_of_tune({.model = std::filesystem::path(file.path()).filename().string(),
                                          .device = session->loaded().device().title(),
                                          .machine = session->loaded().device().machine().name,
                                          .threads = machine.threads,
                                          .kernels = std::move(done),
                                          .layouts = std::move(layouts)})));
  return interrupted() ? kExitInterrupted : 0;
}

}  // namespace

Action declare_tune(CLI::App& app) {
  const auto flags = std::make_shared<TuneFlags>();
  declare_engine_and_device_flags(app, flags->engine);
  app.add_option("--synthetic", flags->synthetic,
                 "a known model without a file, as in `smelt bench`, such as glm-4.7-flash:q4_0: what is found serves "
                 "its files, too")
      ->type_name("SHAPE:MIX")
      ->excludes("--model")
      ->excludes("--hf");
  app.add_option("--minutes", flags->minutes,
                 "time for the search, shared out by what kernels cost; each gets 2 s at least, and "
                 "opening the model and timing it once come on top")
      ->type_name("N")
      ->check(number(0.01, 10000));
  app.add_option("--prompt-tokens", flags->prompt_tokens,
                 "tokens of the prompt that is read, and in the context while decoding")
      ->type_name("N")
      ->check(whole_number(0, 256));
  app.add_option("--parallel", flags->parallel,
                 "sequences that decode side by side, as a server has them: a step of so many has kernels of its own")
      ->type_name("N")
      ->check(whole_number(1, 64));
  app.add_option("--plan", flags->plan, "which kernels: those of decode, of prefill, or both")
      ->type_name("KIND")
      ->check(one_of({"both", "decode", "prefill"}));
  app.add_option("--kernel", flags->kernel, "only kernels with this in their name")->type_name("NAME");
  app.add_option("--json", flags->json, "save all that was tried, for smelt viz; -: to standard output")
      ->type_name("FILE");
  app.add_flag("--no-layouts", flags->no_layouts, "search over options alone");
  app.add_flag("--dry-run", flags->dry_run, "list the kernels, search nothing and keep nothing")->excludes("--json");
  app.footer(kExplanation);
  return [flags] { return run_tune(*flags); };
}

}  // namespace smelt
