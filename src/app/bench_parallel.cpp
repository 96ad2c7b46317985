#include "app/bench_parallel.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "app/bench_rooflines.h"
#include "app/bench_sample.h"
#include "app/bench_table.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/model_source.h"
#include "app/session_tokens.h"
#include "app/stopwatch.h"
#include "base/progress.h"
#include "engine/cache_reads.h"
#include "runtime/target.h"

namespace smelt {
namespace {

struct ParallelRow {
  int64_t sequences = 0;
  std::vector<double> rates;  // tokens per second, of all sequences together
  std::vector<double> reads;  // bytes per second that the machine read about that time
  double bytes_per_step = 0;  // weights and cache rows that a step has to read
  double share_of_bytes = 0;  // of those that its tokens would read one after the other

  double rate() const { return sample_of(rates).median; }
  double bytes_per_second() const { return rate() / static_cast<double>(sequences) * bytes_per_step; }
  double share_of_roofline() const { return bytes_per_second() / sample_of(reads).median; }
};

std::vector<Column> columns(size_t model_width) {
  return {{"model", std::max<size_t>(model_width, 5), false},
          {"threads", 7, true},
          {"test", 16, true},
          {"sequences", 9, true},
          {"tok/s", 17, true},
          {"of each", 8, true},
          {"times one", 9, true},
          {"bytes", 6, true},
          {"GB/s", 7, true},
          {"of roofline", 11, true}};
}

// One configuration: an engine, and the sequences in it.
class ParallelBench {
 public:
  ParallelBench(const BenchFlags& flags, const BenchConfig& config, Rooflines& rooflines)
      : flags_(flags), config_(config), rooflines_(rooflines), threads_(thread_count(config.engine.threads)) {}

  Status open(int64_t depth, int64_t tokens) {
    depth_ = depth, tokens_ = tokens;
    SMELT_TRY(file, ModelSource::open(config_.engine, config_.synthetic));
    file_ = std::move(file);
    EngineOptions options = session_options(config_.engine);
    options.context = depth + tokens;
    options.sequences = *std::max_element(flags_.parallel.begin(), flags_.parallel.end());
    options.prefill_chunk = config_.batch;
    options.use_kernel_cache = config_.use_kernel_cache;
    SMELT_TRY(engine, open_sequences(file_.file(), options));
    engine_ = std::move(engine);
    file_.release_pages();
    reads_ = CacheReads::of(engine_->loaded().model(), options.cache_type);
    return {};
  }

  Result<ParallelRow> run(int64_t sequences, Progress& progress) {
    ParallelRow row{.sequences = sequences};
    const double n = static_cast<double>(sequences), rows = reads_.each(depth_, depth_ + tokens_);
    row.bytes_per_step = engine_->loaded().bytes_read(flags_.same_tokens ? 1 : sequences) + n * rows;
    row.share_of_bytes = row.bytes_per_step / (n * (engine_->loaded().bytes_read(1) + rows));
    for (int64_t r = flags_.no_warmup ? 0 : -1; r < flags_.repetitions; ++r) {
      const double before = rooflines_.now(threads_);
      SMELT_TRY(seconds, time(sequences));
      rooflines_.measure_between(threads_);
      progress.add(1);
      if (r < 0) continue;
      row.rates.push_back(n * static_cast<double>(tokens_) / seconds);
      row.reads.push_back((before + rooflines_.now(threads_)) / 2);
    }
    return row;
  }

  int threads() const { return threads_; }

 private:
  // [sequences, count], of each its own, or the same of all. Random ones: models that talk to themselves choose the
  // same experts again and again.
  std::vector<int32_t> random_tokens(int64_t sequences, int64_t count) {
    std::vector<int32_t> all(static_cast<size_t>(sequences * count));
    for (size_t i = 0; i < all.size(); ++i) {
      const bool is_repeated = flags_.same_tokens && i >= static_cast<size_t>(count);
      all[i] = is_repeated ? all[i - static_cast<size_t>(count)]
                           : static_cast<int32_t>(random_() % static_cast<uint64_t>(engine_->vocabulary_size()));
    }
    return all;
  }

  // Seconds to generate; filling contexts is not counted.
  Result<double> time(int64_t sequences) {
    const std::vector<int32_t> contexts = random_tokens(sequences, depth_);
    std::vector<SequenceId> ids;
    for (int64_t i = 0; i < sequences; ++i) {
      SMELT_TRY(started, engine_->start());
      ids.push_back(started.id);
    }
    if (depth_ > 0) SMELT_CHECK(append(*engine_, ids, contexts));
    const std::vector<int32_t> texts = random_tokens(sequences, tokens_);
    std::vector<int32_t> tokens;  // [steps, sequences]
    for (int64_t t = 0; t < tokens_; ++t)
      for (int64_t i = 0; i < sequences; ++i) tokens.push_back(texts[static_cast<size_t>(i * tokens_ + t)]);
    Stopwatch watch;
    SMELT_CHECK(extend(*engine_, ids, tokens));
    const double seconds = watch.lap();
    for (SequenceId id : ids) engine_->stop(id);
    return seconds;
  }

  const BenchFlags& flags_;
  const BenchConfig& config_;
  Rooflines& rooflines_;
  const int threads_;
  int64_t depth_ = 0, tokens_ = 0;
  ModelSource file_;
  std::unique_ptr<Engine> engine_;
  CacheReads reads_;
  std::mt19937_64 random_;  // the same tokens in every run of the program
};

std::string line_of(const ParallelRow& row, const ParallelRow& first, const BenchConfig& config, const BenchTest& test,
                    int threads, const std::vector<Column>& columns) {
  const Sample rate = sample_of(row.rates);
  const double one = first.rate() / static_cast<double>(first.sequences);
  return table_line({config.model_name(), std::to_string(threads), name_of(test), std::to_string(row.sequences),
                     text_of("%.1f ± %.1f", rate.mean, rate.deviation),
                     text_of("%.2f", rate.median / static_cast<double>(row.sequences)),
                     text_of("%.2fx", rate.median / one), text_of("%.0f %%", 100 * row.share_of_bytes),
                     text_of("%.2f", row.bytes_per_second() / 1e9), share_text(row.share_of_roofline())},
                    columns);
}

nlohmann::ordered_json json_of(const ParallelRow& row, const BenchConfig& config, const BenchTest& test, int threads) {
  return {{"model", config.model_name()},
          {"threads", threads},
          {"test", name_of(test)},
          {"sequences", row.sequences},
          {"tokens_per_second", row.rate()},
          {"tokens_per_second_of_each", row.rate() / static_cast<double>(row.sequences)},
          {"samples", row.rates},
          {"bytes_per_step", row.bytes_per_step},
          {"share_of_bytes", row.share_of_bytes},
          {"bytes_per_second", row.bytes_per_second()},
          {"read_bandwidth_samples", row.reads},
          {"share_of_roofline", row.share_of_roofline()}};
}

// A test is some tokens generated by each sequence.
std::vector<BenchTest> tests_of_sequences(const BenchFlags& flags) {
  std::vector<BenchTest> tests;
  for (int64_t depth : flags.depth)
    for (int64_t tokens : flags.tokens)
      if (tokens > 0) tests.push_back({.tokens = tokens, .depth = depth});
  return tests;
}

}  // namespace

Result<int> run_parallel_bench(const BenchFlags& flags) {
  SMELT_TRY(configs, configs_of(flags));
  const std::vector<BenchTest> tests = tests_of_sequences(flags);
  if (tests.empty()) return Error{"[bench] --parallel: it measures -n, which is 0"};
  size_t width = 0;
  for (const BenchConfig& config : configs) width = std::max(width, config.model_name().size());
  const std::vector<Column> list = columns(width);
  const bool is_table = flags.output == "md";
  DataRows data(flags.output);
  std::fputs((is_table ? table_head(list) : data.begin()).c_str(), stdout);
  Rooflines rooflines;
  const auto runs = static_cast<uint64_t>(flags.repetitions + (flags.no_warmup ? 0 : 1));
  Progress progress("benchmark runs", configs.size() * tests.size() * flags.parallel.size() * runs);
  for (const BenchConfig& config : configs)
    for (const BenchTest& test : tests) {
      ParallelBench bench(flags, config, rooflines);
      rooflines.measure(bench.threads());
      SMELT_CHECK(bench.open(test.depth, test.tokens));
      std::optional<ParallelRow> first;
      for (int64_t sequences : flags.parallel) {
        auto row = bench.run(sequences, progress);
        if (interrupted()) return kExitInterrupted;
        if (!row) return row.error();
        if (!first) first = *row;
        progress.hide();
        std::fputs((is_table ? line_of(*row, *first, config, test, bench.threads(), list)
                             : data.row(json_of(*row, config, test, bench.threads())))
                       .c_str(),
                   stdout);
        std::fflush(stdout);
      }
    }
  progress.finish();
  if (!is_table) std::fputs(data.end().c_str(), stdout);
  return 0;
}

}  // namespace smelt
