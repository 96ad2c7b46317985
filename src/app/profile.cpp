#include "app/profile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/bench_rooflines.h"
#include "app/checks.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/machine_flag.h"
#include "app/profile_collect.h"
#include "app/profile_estimate.h"
#include "app/profile_kernel.h"
#include "app/profile_report.h"
#include "app/profile_trace.h"
#include "app/random_tokens.h"
#include "app/session_tokens.h"
#include "app/synthetic_model.h"
#include "base/output_file.h"
#include "base/progress.h"
#include "engine/model_plans.h"
#include "runtime/devices.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

constexpr int64_t kWarmUpTokens = 3;

constexpr const char* kExplanation =
    "Times every kernel of a token (decode) and of a prompt (prefill). `share`: of the time; "
    "`GB/s`: bytes that the kernel\n"
    "must move, each counted once; `memory`, `arith.`: that as part of what this machine reached "
    "in the same run, `cached`\n"
    "where it is more than memory gives, `int` where integer operations prevail. `!`: --details names "
    "what slows it down.\n"
    "Cheap kernels are left out, see --all.\n"
    "\nExamples:\n"
    "  smelt profile                              the model inside the program\n"
    "  smelt profile -m model.gguf -n 50 -d 2000  decoding with 2000 tokens in the context\n"
    "  smelt profile -m model.gguf --trace t.json a timeline for https://ui.perfetto.dev\n"
    "  smelt profile --json before.json           save, change something, save again, then:\n"
    "  smelt profile --compare before.json after.json\n"
    "  smelt profile --kernel reduce_sum_256      a kernel's IR, options, program, LLVM IR and assembly: NAME as the\n"
    "                                             report gives it, or its beginning\n"
    "  smelt profile --machine h100 --synthetic glm-4.7-flash:q4_0   kernels and times that are to be expected of\n"
    "                                             another machine (smelt machines), with --kernel its source\n"
    "\ndocs/profiling.md explains every figure.\n";

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// What is timed: a model of a file, or one of random weights in memory.
struct ProfiledModel {
  std::unique_ptr<SyntheticModel> synthetic;      // this one
  std::unique_ptr<Session> session_of_synthetic;  // and its session, or
  OpenedModel opened;                             // that
  Session* session = nullptr;
  std::string name;

  static Result<ProfiledModel> open(const ProfileFlags& flags);
};

Result<ProfiledModel> ProfiledModel::open(const ProfileFlags& flags) {
  ProfiledModel out;
  if (flags.synthetic.empty()) {
    SMELT_TRY(opened, open_engine(flags.engine));
    out.opened = std::move(opened);
    out.session = out.opened.session.get();
    out.name = file_name(out.opened.file->path());
    return out;
  }
  if (flags.prompt) return Error{"[profile] --prompt: a synthetic model has no tokenizer; use --prompt-tokens"};
  SMELT_TRY(spec, parse_synthetic(flags.synthetic));
  SMELT_TRY(model, SyntheticModel::make(spec, flags.engine.no_repack));
  SMELT_TRY(session, open_session(model->file(), session_options(flags.engine)));
  out.name = file_name(model->file().path());
  out.synthetic = std::move(model);
  out.session_of_synthetic = std::move(session);
  out.session = out.session_of_synthetic.get();
  return out;
}

// Prompt and decoding, one after the other; each with a warm-up that is not counted.
class ProfileRun {
 public:
  ProfileRun(const ProfileFlags& flags, const ProfiledModel& model, int threads)
      : flags_(flags),
        threads_(threads),
        is_on_processor_(is_processor(flags.engine.device)),
        session_(*model.session),
        collector_(session_, threads),
        prompt_(prompt_of(flags, model)),
        progress_("profiling", static_cast<uint64_t>(flags.repetitions + flags.tokens + 1)) {}

  Status run() {
    const int64_t needed =
        std::max<int64_t>(static_cast<int64_t>(prompt_.size()), flags_.depth + kWarmUpTokens + flags_.tokens);
    if (needed > session_.context())
      return Error{"[profile] " + std::to_string(needed) + " tokens do not fit a context of " +
                   std::to_string(session_.context()) + "; make it longer with -c, or -n, -d and the prompt shorter"};
    const std::vector<int32_t> tokens = random_tokens(session_, flags_.depth + kWarmUpTokens + flags_.tokens);
    const auto counted = std::span(tokens).last(static_cast<size_t>(flags_.tokens));
    if (!prompt_.empty()) SMELT_CHECK(append(session_, prompt_));
    session_.reset();
    if (flags_.depth > 0) SMELT_CHECK(append(session_, std::span(tokens).first(static_cast<size_t>(flags_.depth))));
    for (int64_t i = 0; i < kWarmUpTokens; ++i)
      SMELT_CHECK(extend(session_, tokens[static_cast<size_t>(flags_.depth + i)]));
    collector_.forget();
    progress_.add(1);
    for (const int32_t& token : counted) {
      if (is_on_processor_) rooflines_.measure_between(threads_);
      SMELT_CHECK(extend(session_, token));
      progress_.add(1);
    }
    for (int i = 0; i < prompts(); ++i) {
      if (is_on_processor_) rooflines_.measure_between(threads_);
      session_.reset();
      SMELT_CHECK(append(session_, prompt_));
      progress_.add(1);
    }
    if (is_on_processor_) rooflines_.measure(threads_);
    progress_.finish();
    return {};
  }

  // Adds what the processor could do between the runs, if it was the one that was timed.
  void improve(MachineRates& machine) const {
    if (!is_on_processor_) return;
    machine.bytes_per_second = std::max(machine.bytes_per_second, rooflines_.of(machine.threads));
    machine.arithmetic.add(rooflines_.arithmetic(machine.threads));
  }

  // A prompt of one token is decoded, not prefilled.
  int prompts() const { return prompt_.size() > 1 ? flags_.repetitions : 0; }
  const ProfileCollector& collector() const { return collector_; }

 private:
  static std::vector<int32_t> prompt_of(const ProfileFlags& flags, const ProfiledModel& model) {
    if (flags.prompt) return model.opened.tokenizer->encode(*flags.prompt);
    return random_tokens(*model.session, std::min(flags.prompt_tokens, model.session->context()));
  }

  const ProfileFlags& flags_;
  const int threads_;
  const bool is_on_processor_;
  Rooflines rooflines_;
  Session& session_;
  ProfileCollector collector_;
  std::vector<int32_t> prompt_;
  Progress progress_;
};

Result<int> compare(const ProfileFlags& flags) {
  SMELT_TRY(before, load_profile(flags.compare[0]));
  SMELT_TRY(after, load_profile(flags.compare[1]));
  std::fputs(comparison(before, after).c_str(), stdout);
  return 0;
}

// Where a result goes, found before the work. Nothing: it is not wanted.
Result<std::optional<OutputFile>> place_of(const std::string& path) {
  if (path.empty()) return std::optional<OutputFile>();
  SMELT_TRY(file, OutputFile::open(path));
  return std::optional<OutputFile>(std::move(file));
}

// Where standard output is the file, the report goes elsewhere.
Status write_results(const ProfileFlags& flags, const Profile& profile, std::optional<OutputFile>& json) {
  if (json) SMELT_CHECK(json->write(text_of_profile(profile)));
  const bool is_taken = flags.json == "-" || flags.trace == "-";
  const ReportOptions shown{.details = flags.details, .kernels = flags.all ? 0 : ReportOptions{}.kernels};
  std::fputs(report(profile, shown).c_str(), is_taken ? stderr : stdout);
  return {};
}

// A model that is only looked at, on a machine by name or on the device that it would run on.
class Listed {
 public:
  static Result<Listed> open(const ProfileFlags& flags) {
    Listed out;
    SMELT_CHECK(out.open_file(flags));
    const EngineFlags& e = flags.engine;
    SMELT_TRY(device, flags.machine.empty() ? open_device({.name = e.device, .threads = e.threads})
                                            : open_null_device(flags.machine));
    out.device_ = std::move(device);
    SMELT_TRY(listing, ModelPlans::make(out.file(), *out.device_, session_options(e), &interrupted()));
    out.listing_ = std::move(listing);
    return out;
  }

  const GgufFile& file() const { return synthetic_ ? synthetic_->file() : *file_; }
  const Machine& machine() const { return device_->machine(); }
  const ModelPlans& listing() const { return *listing_; }

 private:
  Status open_file(const ProfileFlags& flags) {
    if (flags.synthetic.empty()) {
      SMELT_TRY(file, open_model(flags.engine.model));
      file_ = std::make_unique<GgufFile>(std::move(file));
      return {};
    }
    SMELT_TRY(spec, parse_synthetic(flags.synthetic));
    SMELT_TRY(model, SyntheticModel::without_weights(spec));
    synthetic_ = std::move(model);
    return {};
  }

  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<SyntheticModel> synthetic_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ModelPlans> listing_;
};

Result<int> show_kernel(const ProfileFlags& flags) {
  SMELT_TRY(listed, Listed::open(flags));
  SMELT_TRY(text, kernel_text(listed.listing(), flags.kernel));
  std::fputs(text.c_str(), stdout);
  return 0;
}

Result<int> estimate_profile(const ProfileFlags& flags) {
  SMELT_TRY(json, place_of(flags.json));
  SMELT_TRY(listed, Listed::open(flags));
  const int64_t prompt = std::min(flags.prompt_tokens, listed.listing().layout().context);
  SMELT_TRY(profile, estimated_profile(listed.listing(), listed.machine(), prompt, flags.depth));
  profile.model = file_name(listed.file().path());
  SMELT_CHECK(write_results(flags, profile, json));
  return 0;
}

}  // namespace

Result<int> run_profile(const ProfileFlags& flags) {
  if (!flags.compare.empty()) return compare(flags);
  if (!flags.kernel.empty()) return show_kernel(flags);
  if (!flags.machine.empty()) return estimate_profile(flags);
  SMELT_TRY(json, place_of(flags.json));
  SMELT_TRY(trace, place_of(flags.trace));
  SMELT_TRY(machine, measure_device(flags.engine.device, flags.engine.threads));
  SMELT_TRY(model, ProfiledModel::open(flags));
  ProfileRun run(flags, model, machine.threads);
  const Status done = run.run();
  if (interrupted()) return kExitInterrupted;
  SMELT_CHECK(done);
  run.improve(machine);
  const Profile profile = run.collector().result(model.name, machine, run.prompts());
  if (trace) SMELT_CHECK(trace->write(chrome_trace(run.collector(), *model.session)));
  SMELT_CHECK(write_results(flags, profile, json));
  return 0;
}

Action declare_profile(CLI::App& app) {
  const auto flags = std::make_shared<ProfileFlags>();
  declare_engine_flags(app, flags->engine);
  CLI::Option* machine = declare_machine_flag(app, flags->machine, "estimate for this machine, and run nothing");
  declare_device_flag(app, flags->engine.device);
  app.add_option(
         "--synthetic", flags->synthetic,
         "a known model without a file, as in `smelt bench`, such as glm-4.7-flash:q4_0; with --machine without "
         "weights, too")
      ->type_name("SHAPE:MIX");
  app.add_option("-n,--predict", flags->tokens, "tokens to decode and time")
      ->type_name("N")
      ->check(whole_number(1, 1 << 20));
  app.add_option("-p,--prompt", flags->prompt, "the prompt to time; without it, random tokens")->type_name("TEXT");
  app.add_option("--prompt-tokens", flags->prompt_tokens, "how many random ones; 0: no prompt")
      ->type_name("N")
      ->check(whole_number(0, 1 << 20));
  app.add_option("-d,--n-depth", flags->depth, "tokens in the context before decoding is timed")
      ->type_name("N")
      ->check(whole_number(0, 1 << 24));
  app.add_option("-r,--repetitions", flags->repetitions, "how often the prompt is read")
      ->type_name("N")
      ->check(whole_number(1, 1000));
  app.add_flag("--all", flags->all, "show every kernel");
  app.add_flag("--details", flags->details, "what each kernel computes, its options and what slows it down");
  app.add_option("--kernel", flags->kernel, "show this kernel in all its forms, and time nothing")->type_name("NAME");
  app.add_option("--trace", flags->trace, "write a timeline for Perfetto; -: to standard output")
      ->type_name("FILE")
      ->excludes(machine);
  app.add_option("--json", flags->json, "save the profile; -: to standard output")->type_name("FILE");
  app.add_option("--compare", flags->compare, "compare two saved profiles")
      ->type_name("A B")
      ->default_str("")
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->expected(2);
  app.footer(kExplanation);
  return [flags] { return run_profile(*flags); };
}

}  // namespace smelt
