#include "app/bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/bench_block.h"
#include "app/bench_contest.h"
#include "app/bench_drafts.h"
#include "app/bench_grammar.h"
#include "app/bench_parallel.h"
#include "app/bench_predict.h"
#include "app/bench_report.h"
#include "app/bench_rooflines.h"
#include "app/bench_session.h"
#include "app/bench_write.h"
#include "app/checks.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/number_list.h"
#include "base/progress.h"
#include "runtime/devices.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr double kWakingSeconds = 1;  // of a GPU, before its first run of a test

constexpr const char* kExplanation =
    "Each flag takes several values, separated by commas; every combination is measured. Tests: "
    "pp512 reads a prompt of\n"
    "512 tokens, tg128 generates 128 tokens one by one, pp512+tg128 does both, `@ d2048` with 2048 "
    "tokens in the context\n"
    "already. Tokens are random. `of roofline` is the part of the memory bandwidth, measured in "
    "the same run, that\n"
    "decoding reaches; `cached`: more than all of it, since weights stayed in the processor's caches.\n"
    "\nExamples:\n"
    "  smelt bench                                  the model inside the program\n"
    "  smelt bench -m a.gguf,b.gguf -t 1,2          two models, on one core and on two\n"
    "  smelt bench -m a.gguf -p 0 -n 32 -d 0,2048   decoding with an empty and a long context\n"
    "  smelt bench -m a.gguf --vs \"-t 1\"            two configurations that take turns, and "
    "their ratio\n"
    "  smelt bench -m a.gguf -o json > a.json       everything that was measured, for programs\n"
    "  smelt bench --synthetic glm-4.7-flash:q4_0   a known architecture with random weights\n"
    "  smelt bench --synthetic glm-4.7-flash:q4_0 --block -p 64,512\n"
    "                                               what each part of a block takes\n"
    "  smelt bench -m a.gguf --parallel 1,8,32      sequences that generate side by side\n"
    "  smelt bench -m a.gguf --mtp 3 --text b.txt   what drafts gain, by their length\n"
    "  smelt bench --predict --machine m3-max --synthetic glm-4.7-flash:q4_0\n"
    "                                               how fast it should be on a machine that is not here\n"
    "\ndocs/benchmarking.md explains every figure.\n";

int usage(const std::string& message) {
  std::fprintf(stderr, "smelt: %s\nTry `smelt bench --help`.\n", message.c_str());
  return kExitUsage;
}

class Bench {
 public:
  Bench(const BenchFlags& flags, std::vector<Contest> contests)
      : flags_(flags),
        contests_(std::move(contests)),
        report_(flags.output, !flags.versus.empty(), model_width()),
        progress_("benchmark runs", run_count()) {}

  Status run() {
    Status status;
    for (const Contest& contest : contests_)
      if (status = run(contest); !status) break;
    if (begun_) print(report_.end());
    progress_.finish();
    if (interrupted())
      std::fprintf(stderr, "stopped: interrupted; rows above are complete, the last test is left out\n");
    if (flags_.output == "md" && !notes_.empty()) print("\n" + notes_);
    return interrupted() ? Status{} : status;
  }

 private:
  Status run(const Contest& contest) {
    for (const BenchConfig& config : contest.configs) rooflines_.measure(thread_count(config.engine.threads));
    return contest.reloads ? run_with_reloads(contest) : run_together(contest);
  }

  Status run_together(const Contest& contest) {
    reset_peak_memory();
    std::vector<BenchSession> sessions;
    for (const BenchConfig& config : contest.configs) {
      SMELT_TRY(session, BenchSession::open(config, context_for(contest.tests)));
      sessions.push_back(std::move(session));
    }
    for (const BenchTest& test : contest.tests) {
      std::vector<BenchRow> rows;
      for (size_t i = 0; i < sessions.size(); ++i) rows.push_back(row_of(contest.configs[i], sessions[i], test));
      if (!flags_.no_warmup)
        for (BenchSession& session : sessions) SMELT_CHECK(warm_up(session, test));
      for (int64_t r = 0; r < flags_.repetitions; ++r)
        for (size_t i = 0; i < sessions.size(); ++i) SMELT_CHECK(run(sessions[i], test, rows[i]));
      report(contest, rows);
      reset_peak_memory();
    }
    return {};
  }

  // Both sides do not fit into memory together, so each is opened for a round of all tests and closed again.
  Status run_with_reloads(const Contest& contest) {
    std::vector<std::vector<BenchRow>> rows(contest.tests.size());  // of each test, by configuration
    for (int64_t r = 0; r < flags_.repetitions; ++r)
      for (const BenchConfig& config : contest.configs) {
        reset_peak_memory();
        SMELT_TRY(session, BenchSession::open(config, context_for(contest.tests)));
        const auto i = static_cast<size_t>(&config - contest.configs.data());
        for (size_t t = 0; t < contest.tests.size(); ++t) {
          const BenchTest& test = contest.tests[t];
          if (rows[t].size() <= i) rows[t].push_back(row_of(config, session, test));
          if (!flags_.no_warmup) SMELT_CHECK(warm_up(session, test));
          SMELT_CHECK(run(session, test, rows[t][i]));
        }
      }
    for (std::vector<BenchRow>& of_test : rows) report(contest, of_test);
    return {};
  }

  // A GPU at rest has a low clock, and takes a moment to raise it.
  Status warm_up(BenchSession& session, const BenchTest& test) {
    const double least = is_processor(session.session().loaded().device().name()) ? 0 : kWakingSeconds;
    for (double spent = 0; spent == 0 || spent < least;) {
      SMELT_TRY(seconds, session.time(test));
      spent += seconds;
    }
    progress_.add(1);
    return {};
  }

  Status run(BenchSession& session, const BenchTest& test, BenchRow& row) {
    const double reads_before = rooflines_.now(session.threads());
    SMELT_TRY(seconds, session.time(test));
    row.rates.push_back(static_cast<double>(test.total()) / seconds);
    // Bandwidth takes memory itself.
    row.peak_memory = std::max(row.peak_memory, peak_memory());
    rooflines_.measure_between(row.threads);
    row.reads.push_back((reads_before + rooflines_.now(row.threads)) / 2);
    reset_peak_memory();
    progress_.add(1);
    return {};
  }

  void report(const Contest& contest, std::vector<BenchRow>& rows) {
    if (rows.size() > 1) rows[1].ratios = paired_ratios(rows[0].rates, rows[1].rates);
    for (BenchRow& row : rows) {
      rooflines_.measure(row.threads);
      row.bandwidth = rooflines_.of(row.threads);
      row.arithmetic = rooflines_.arithmetic(row.threads);
      // Not before there is something to show: a model that does not open leaves no empty table behind.
      if (!std::exchange(begun_, true)) print(report_.begin());
      print(report_.row(row));
      if (row.test == contest.tests.back()) notes_ += configuration_lines(row, thread_count(0));
    }
  }

  static BenchRow row_of(const BenchConfig& config, const BenchSession& session, const BenchTest& test) {
    return {.config = config,
            .test = test,
            .model = config.model_name(),
            .file_bytes = session.file().file_bytes(),
            .threads = session.threads(),
            .bytes_per_token = session.bytes_per_token(test),
            .stats = session.stats(),
            .cold_compile = session.cold_compile()};
  }

  size_t model_width() const {
    size_t width = 0;
    for (const Contest& contest : contests_)
      for (const BenchConfig& c : contest.configs) width = std::max(width, c.model_name().size());
    return width;
  }

  uint64_t run_count() const {
    uint64_t runs = 0;
    for (const Contest& contest : contests_) {
      const int64_t warm_ups = flags_.no_warmup ? 0 : contest.reloads ? flags_.repetitions : 1;
      runs += contest.configs.size() * contest.tests.size() * static_cast<uint64_t>(flags_.repetitions + warm_ups);
    }
    return runs;
  }

  void print(const std::string& text) {
    progress_.hide();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const BenchFlags& flags_;
  std::vector<Contest> contests_;
  BenchReport report_;
  Progress progress_;
  Rooflines rooflines_;
  std::string notes_;
  bool begun_ = false;
};

// Before the first measurement: a name that is wrong would be found after minutes.
Status check_files(const std::vector<Contest>& contests) {
  for (const Contest& contest : contests)
    for (const BenchConfig& config : contest.configs)
      if (config.synthetic.empty())
        if (const auto file = open_model(config.engine.model); !file) return file.error();
  return {};
}

}  // namespace

Result<int> run_bench(const BenchFlags& flags) {
  if (!flags.write.empty()) {
    if (flags.synthetic.size() != 1 || !flags.models.empty())
      return usage("--write: name one model with --synthetic, and none with -m");
    return write_synthetic(flags.synthetic.front(), flags.write);
  }
  auto contests = contests_of(flags);
  if (!contests) return usage(contests.error().message);
  SMELT_CHECK(check_files(*contests));
  if (flags.predict) return run_predictions(flags);
  if (flags.grammar) return run_grammar_bench(flags);
  if (flags.block) return run_block_bench(flags, *contests);
  if (!flags.parallel.empty()) return run_parallel_bench(flags);
  if (flags.draft.wanted()) return run_draft_bench(flags);
  SMELT_CHECK(check_draft_flags(flags.draft));
  Bench bench(flags, contests.take());
  SMELT_CHECK(bench.run());
  return interrupted() ? kExitInterrupted : 0;
}

Action declare_bench(CLI::App& app) {
  const auto flags = std::make_shared<BenchFlags>();
  declare_bench_flags(app, *flags);
  const CLI::Option* repetitions = app.add_option("-r,--repetitions", flags->repetitions,
                                                  "how often each test runs; with --block 30 unless said otherwise")
                                       ->type_name("N")
                                       ->default_str("5")
                                       ->check(whole_number(1, 100000));
  app.add_flag("--block", flags->block,
               "time the parts of one transformer block (attention, router, experts, ...) in place "
               "of whole tests");
  CLI::Option* parallel = add_number_list(
      app, "--parallel", flags->parallel, 1, kMostParallel, "N,...",
      "time sequences that generate -n tokens side by side, each with -d tokens in its context, in place of "
      "whole tests");
  app.add_flag("--same-tokens", flags->same_tokens,
               "with --parallel: all sequences have the same tokens and choose the same experts, as in "
               "llama-batched-bench; otherwise each has its own, as those of different clients")
      ->needs(parallel);
  declare_draft_flags(app, flags->draft);
  app.add_option("--text", flags->text, "with drafts: a file whose pieces the model goes on with")
      ->type_name("FILE")
      ->check(not_empty());
  app.add_flag("--grammar", flags->grammar,
               "time what a grammar adds to a token with the vocabulary of the model, in place of whole tests");
  CLI::Option* predict = app.add_flag("--predict", flags->predict,
                                      "estimate for the machines of --machine in place of measuring; nothing runs");
  app.add_option("--machine", flags->machines,
                 "with --predict: a machine by name (`smelt machines`); several: the flag several times; without it, "
                 "this one")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->needs(predict);
  app.add_option("--write", flags->write,
                 "with one --synthetic: write it as a GGUF file, for programs to compare with, and "
                 "measure nothing")
      ->type_name("FILE")
      ->check(not_empty());
  app.add_option("-o,--output", flags->output, "form of the result: md, csv, json, jsonl")
      ->type_name("FORM")
      ->check(one_of({"md", "csv", "json", "jsonl"}));
  app.add_flag("--compile", flags->compile,
               "time compiling, too: cold, everything anew, and warm, from the kernel cache");
  app.add_flag("--no-warmup", flags->no_warmup, "count the first run of a test, too");
  app.add_option("--vs", flags->versus, "a second configuration: flags that differ from the first")->type_name("FLAGS");
  app.add_flag("--reload", flags->reload,
               "with --vs: load each side anew for its turns, so that only one is in memory; this is "
               "what happens anyway where both do not fit");
  app.footer(kExplanation);
  return [flags, repetitions] {
    if (flags->block && repetitions->count() == 0) flags->repetitions = 30;
    return run_bench(*flags);
  };
}

}  // namespace smelt
