#include "app/profile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/checks.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/machine_flag.h"
#include "app/other_forms.h"
#include "app/profile_estimate.h"
#include "app/profile_kernel.h"
#include "app/profile_report.h"
#include "app/profile_run.h"
#include "app/profile_trace.h"
#include "app/sources.h"
#include "base/output_file.h"

namespace smelt {
namespace {

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
    "  smelt profile --what-if --machine h200 --synthetic glm-4.7-flash:q4_0   matrices side by side, products of two\n"
    "                                             matrices in place of them: what that would save there\n"
    "\ndocs/profiling.md explains every figure.\n";

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

Result<int> show_kernel(const ProfileFlags& flags) {
  SMELT_TRY(listed, Listed::open(flags));
  SMELT_TRY(text, kernel_text(listed.listing(), flags.kernel));
  std::fputs(text.c_str(), stdout);
  return 0;
}

Result<int> show_other_forms(const ProfileFlags& flags) {
  SMELT_TRY(listed, Listed::open(flags));
  if (flags.depth >= listed.listing().layout().context)
    return Error{"[profile] -d " + std::to_string(flags.depth) + ": a token behind as many does not fit a context of " +
                 std::to_string(listed.listing().layout().context) + "; make it longer with -c"};
  std::fputs(other_forms(listed.listing(), listed.file(), listed.machine(), flags.depth).c_str(), stdout);
  return 0;
}

Result<int> estimate_profile(const ProfileFlags& flags) {
  SMELT_TRY(json, place_of(flags.json));
  SMELT_TRY(listed, Listed::open(flags));
  const int64_t prompt = std::min(flags.prompt_tokens, listed.listing().layout().context);
  SMELT_TRY(profile, estimated_profile(listed.listing(), listed.machine(), prompt, flags.depth));
  profile.model = listed.name();
  SMELT_CHECK(write_results(flags, profile, json));
  return 0;
}

}  // namespace

Result<int> run_profile(const ProfileFlags& flags) {
  if (!flags.compare.empty()) return compare(flags);
  if (!flags.kernel.empty()) return show_kernel(flags);
  if (flags.what_if) return show_other_forms(flags);
  if (!flags.machine.empty()) return estimate_profile(flags);
  SMELT_TRY(json, place_of(flags.json));
  SMELT_TRY(trace, place_of(flags.trace));
  SMELT_TRY(machine, measure_device(flags.engine.device, flags.engine.threads));
  SMELT_TRY(model, ProfiledModel::open(flags));
  if (model.opened.file)
    for (const std::string& output : {flags.json, flags.trace})
      SMELT_CHECK(check_is_no_source("profile", output, files_of(*model.opened.file)));
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

CLI::Option* declare_profiled(CLI::App& app, ProfiledFlags& flags) {
  declare_engine_flags(app, flags.engine);
  CLI::Option* machine = declare_machine_flag(app, flags.machine, "estimate for this machine, and run nothing");
  declare_device_flag(app, flags.engine.device);
  app.add_option(
         "--synthetic", flags.synthetic,
         "a known model without a file, as in `smelt bench`, such as glm-4.7-flash:q4_0; with --machine without "
         "weights, too")
      ->type_name("SHAPE:MIX");
  app.add_option("-n,--predict", flags.tokens, "tokens to decode and time")
      ->type_name("N")
      ->check(whole_number(1, 1 << 20));
  app.add_option("-p,--prompt", flags.prompt, "the prompt to time; without it, random tokens")->type_name("TEXT");
  app.add_option("--prompt-tokens", flags.prompt_tokens, "how many random ones; 0: no prompt")
      ->type_name("N")
      ->check(whole_number(0, 1 << 20));
  app.add_option("-d,--n-depth", flags.depth, "tokens in the context before decoding is timed")
      ->type_name("N")
      ->check(whole_number(0, 1 << 24));
  app.add_option("--parallel", flags.parallel, "sequences that decode side by side, a token of each at a time")
      ->type_name("N")
      ->check(whole_number(1, 64));
  app.add_option("-r,--repetitions", flags.repetitions, "how often the prompt is read")
      ->type_name("N")
      ->check(whole_number(1, 1000));
  return machine;
}

Action declare_profile(CLI::App& app) {
  const auto flags = std::make_shared<ProfileFlags>();
  CLI::Option* machine = declare_profiled(app, *flags);
  app.add_flag("--all", flags->all, "show every kernel");
  app.add_flag("--details", flags->details, "what each kernel computes, its options and what slows it down");
  app.add_option("--kernel", flags->kernel, "show this kernel in all its forms, and time nothing")->type_name("NAME");
  app.add_flag("--what-if", flags->what_if,
               "other forms of the model's blocks that give the same values, and what they would save; times nothing");
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
