#include "app/bench.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "app/bench_report.h"
#include "app/bench_session.h"
#include "app/checks.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "base/progress.h"
#include "runtime/memory.h"
#include "runtime/workers.h"

namespace smelt {
namespace {

constexpr const char* kExplanation =
    "Each flag takes several values, separated by commas; every combination is measured. Tests: "
    "pp512 reads a prompt of\n"
    "512 tokens, tg128 generates 128 tokens one by one, pp512+tg128 does both, `@ d2048` with 2048 "
    "tokens in the context\n"
    "already. Tokens are random. `of roofline` is the part of the memory bandwidth, measured in "
    "the same run, that\n"
    "decoding reaches: nothing that reads all its weights once a token can be faster than 100 %.\n"
    "\nExamples:\n"
    "  smelt bench                                  the model inside the program\n"
    "  smelt bench -m a.gguf,b.gguf -t 1,2          two models, on one core and on two\n"
    "  smelt bench -m a.gguf -p 0 -n 32 -d 0,2048   decoding with an empty and a long context\n"
    "  smelt bench -m a.gguf --vs \"-t 1\"            two configurations that take turns, and "
    "their ratio\n"
    "  smelt bench -m a.gguf -o json > a.json       everything that was measured, for programs\n";

int usage(const std::string& message) {
  std::fprintf(stderr, "smelt: %s\nTry `smelt bench --help`.\n", message.c_str());
  return kExitUsage;
}

// How fast this machine reads, by number of threads; the best that this run has seen.
class Rooflines {
 public:
  void measure(int threads) {
    Workers workers(threads);
    double& best = bytes_per_second_[threads];
    best = std::max(best, read_bandwidth(workers) * 1e9);
  }
  double of(int threads) const { return bytes_per_second_.at(threads); }

 private:
  std::map<int, double> bytes_per_second_;
};

// One or, with --vs, two configurations that take turns on the same tests.
struct Contest {
  std::vector<BenchConfig> configs;
  std::vector<BenchTest> tests;
};

class Bench {
 public:
  Bench(const BenchFlags& flags, std::vector<Contest> contests)
      : flags_(flags),
        contests_(std::move(contests)),
        report_(flags.output, !flags.versus.empty(), model_width()),
        progress_("bench", run_count()) {}

  Status run() {
    print(report_.begin());
    Status status;
    for (const Contest& contest : contests_)
      if (status = run(contest); !status) break;
    print(report_.end());
    progress_.finish();
    if (flags_.output == "md") print("\n" + notes_);
    return interrupted() ? Status{} : status;
  }

 private:
  Status run(const Contest& contest) {
    for (const BenchConfig& config : contest.configs)
      rooflines_.measure(thread_count(config.engine.threads));
    reset_peak_memory();
    std::vector<BenchSession> sessions;
    for (const BenchConfig& config : contest.configs) {
      SMELT_TRY(session, BenchSession::open(config, context_for(contest.tests)));
      sessions.push_back(std::move(session));
    }
    for (const BenchTest& test : contest.tests) SMELT_CHECK(run(contest, sessions, test));
    return {};
  }

  Status run(const Contest& contest, std::vector<BenchSession>& sessions, const BenchTest& test) {
    std::vector<BenchRow> rows;
    for (size_t i = 0; i < sessions.size(); ++i)
      rows.push_back(row_of(contest.configs[i], sessions[i], test));
    for (int64_t r = flags_.no_warmup ? 0 : -1; r < flags_.repetitions; ++r) {
      for (size_t i = 0; i < sessions.size(); ++i) {
        SMELT_TRY(seconds, sessions[i].time(test));
        if (r >= 0) rows[i].rates.push_back(static_cast<double>(test.total()) / seconds);
        progress_.add(1);
      }
    }
    if (rows.size() > 1) rows[1].ratios = paired_ratios(rows[0].rates, rows[1].rates);
    const int64_t memory =
        peak_memory();  // before the next measurement of bandwidth, which needs memory itself
    for (BenchRow& row : rows) {
      rooflines_.measure(row.threads);
      row.bandwidth = rooflines_.of(row.threads);
      row.peak_memory = memory;
      print(report_.row(row));
      if (test == contest.tests.back()) notes_ += configuration_line(row);
    }
    reset_peak_memory();
    return {};
  }

  static BenchRow row_of(const BenchConfig& config, const BenchSession& session,
                         const BenchTest& test) {
    return {.config = config,
            .test = test,
            .model = session.model_name(),
            .file_bytes = session.file_bytes(),
            .threads = session.threads(),
            .bytes_per_token = session.bytes_per_token(test),
            .stats = session.stats()};
  }

  size_t model_width() const {
    size_t width = std::string_view("embedded model").size();
    for (const Contest& contest : contests_)
      for (const BenchConfig& c : contest.configs)
        width = std::max(width, c.engine.model.size() - (c.engine.model.find_last_of('/') + 1));
    return width;
  }

  uint64_t run_count() const {
    size_t tests = 0;
    for (const Contest& contest : contests_) tests += contest.configs.size() * contest.tests.size();
    return tests * static_cast<uint64_t>(flags_.repetitions + (flags_.no_warmup ? 0 : 1));
  }

  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const BenchFlags& flags_;
  std::vector<Contest> contests_;
  BenchReport report_;
  Progress progress_;
  Rooflines rooflines_;
  std::string notes_;
};

Result<std::vector<Contest>> contests_of(const BenchFlags& flags) {
  SMELT_TRY(tests, tests_of(flags));
  std::vector<Contest> contests;
  for (const BenchConfig& config : configs_of(flags)) contests.push_back({{config}, tests});
  if (flags.versus.empty()) return contests;
  SMELT_TRY(other, with_versus(flags));
  SMELT_TRY(other_tests, tests_of(other));
  if (other_tests != tests)
    return Error{"--vs \"" + flags.versus +
                 "\": both sides run the same tests; leave out -p, -n, -pg and -d there"};
  std::vector<BenchConfig> others = configs_of(other);
  if (others.size() != contests.size())
    return Error{"--vs \"" + flags.versus + "\": it makes " + std::to_string(others.size()) +
                 " configurations against " + std::to_string(contests.size()) +
                 "; give both sides lists of equal length"};
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].label = flags.versus;
    contests[i].configs.push_back(others[i]);
  }
  return contests;
}

}  // namespace

Result<int> run_bench(const BenchFlags& flags) {
  auto contests = contests_of(flags);
  if (!contests) return usage(contests.error().message);
  Bench bench(flags, contests.take());
  SMELT_CHECK(bench.run());
  return interrupted() ? kExitInterrupted : 0;
}

Action declare_bench(CLI::App& app) {
  const auto flags = std::make_shared<BenchFlags>();
  declare_bench_flags(app, *flags);
  app.add_option("-r,--repetitions", flags->repetitions, "how often each test runs")
      ->type_name("N")
      ->check(whole_number(1, 100000));
  app.add_option("-o,--output", flags->output, "form of the result: md, csv, json, jsonl")
      ->type_name("FORM")
      ->check(one_of({"md", "csv", "json", "jsonl"}));
  app.add_flag("--no-warmup", flags->no_warmup, "count the first run of a test, too");
  app.add_option("--vs", flags->versus, "a second configuration: flags that differ from the first")
      ->type_name("FLAGS");
  app.footer(kExplanation);
  return [flags] { return run_bench(*flags); };
}

}  // namespace smelt
