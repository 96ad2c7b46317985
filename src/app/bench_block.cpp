#include "app/bench_block.h"

#include <cstdio>

#include "app/bench_block_report.h"
#include "app/bench_block_timer.h"
#include "app/bench_rooflines.h"
#include "app/bench_session.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "base/progress.h"
#include "runtime/cache_flush.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// What all launches of a test have to do in one block. A prompt is read in chunks, each of which reads the weights
// again.
std::map<BlockPart, PartWork> work_of(const BenchSession& session, const BenchTest& test, int64_t batch,
                                      int64_t layer) {
  const int64_t total = test.total();
  const CacheReads reads = CacheReads::of_layer(session.model(), session.cache_type(), layer);
  std::map<BlockPart, PartWork> sum;
  for (int64_t done = 0; done < total; done += batch) {
    const int64_t tokens = std::min(batch, total - done);
    for (const auto& [part, work] : work_of(layer, session.file(), session.model(), tokens, test.depth + done, reads)) {
      sum[part].bytes += work.bytes;
      sum[part].multiply_adds += work.multiply_adds;
    }
  }
  return sum;
}

constexpr int64_t kRunsBetweenMeasures = 10;  // of bandwidth; a block's time is short, so is a busy machine's mood

// One test of one configuration under way.
class BlockRun {
 public:
  BlockRun(const BenchConfig& config, const BenchTest& test, BenchSession& session)
      : session_(session), timer_(session) {
    result_ = {
        .config = config, .test = test, .threads = session.threads(), .bytes_between = session.stats().bytes_per_token};
    for (const BlockKind& kind : block_kinds(session.file(), session.model())) {
      const auto work = work_of(session, test, session.chunk(), kind.layers[0]);
      BlockRow all{.block = kind.name, .layers = kind.layers.size()};
      for (const auto& [part, w] : work) {
        all.work.bytes += w.bytes;
        all.work.multiply_adds += w.multiply_adds;
      }
      result_.rows.push_back(all);
      for (const auto& [part, w] : work)
        result_.rows.push_back({.block = kind.name, .layers = kind.layers.size(), .part = part, .work = w});
      layers_.resize(result_.rows.size(), kind.layers);
    }
  }

  // Runs the test once. `counts`: not a warm-up.
  Status run(bool counts) {
    timer_.take();
    SMELT_TRY(seconds, session_.time(result_.test));
    (void)seconds;
    if (counts) add(timer_.take());
    return {};
  }

  BlockResult& result() { return result_; }

  // The order of samples is the same in all configurations.
  void compare_with(const BlockResult& first) {
    for (BlockRow& row : result_.rows)
      for (const BlockRow& other : first.rows)
        if (other.block == row.block && other.part == row.part) row.ratios = paired_ratios(row.seconds, other.seconds);
  }

  void finish() {
    double whole = 0;  // of the block of a row, which comes before its parts
    for (BlockRow& row : result_.rows) {
      const double median = sample_of(row.seconds).median;
      if (!row.part) whole = median;
      row.share = whole > 0 ? median / whole : 0;
    }
  }

 private:
  void add(const BlockTimer::Times& times) {
    ++result_.runs;
    for (size_t i = 0; i < result_.rows.size(); ++i)
      for (int64_t layer : layers_[i]) add(times.at(layer), result_.rows[i]);
  }

  static void add(const BlockTime& block, BlockRow& row) {
    PartTime time = block.all;
    if (row.part) {
      const auto part = block.parts.find(*row.part);
      time = part == block.parts.end() ? PartTime{} : part->second;
    }
    row.seconds.push_back(time.seconds);
    row.launches = time.launches;
    row.shared_launches = time.shared;
  }

  BenchSession& session_;
  BlockTimer timer_;
  BlockResult result_;
  std::vector<std::vector<int64_t>> layers_;  // that each row is about
};

class BlockBench {
 public:
  BlockBench(const BenchFlags& flags, const std::vector<Contest>& contests)
      : flags_(flags),
        contests_(contests),
        report_(flags.output, !flags.versus.empty()),
        progress_("benchmark runs", run_count()) {}

  Status run() {
    Status status;
    for (const Contest& contest : contests_)
      if (status = run(contest); !status) break;
    if (begun_) print(report_.end());
    progress_.finish();
    return interrupted() ? Status{} : status;
  }

 private:
  Status run(const Contest& contest) {
    std::vector<BenchSession> sessions;
    for (const BenchConfig& config : contest.configs) {
      rooflines_.measure(thread_count(config.engine.threads));
      SMELT_TRY(session, BenchSession::open(config, context_for(contest.tests)));
      sessions.push_back(std::move(session));
    }
    for (const BenchTest& test : contest.tests) SMELT_CHECK(run(contest, sessions, test));
    return {};
  }

  Status run(const Contest& contest, std::vector<BenchSession>& sessions, const BenchTest& test) {
    std::vector<std::unique_ptr<BlockRun>> runs;
    std::vector<std::unique_ptr<CacheFlush>> flushes;
    for (size_t i = 0; i < sessions.size(); ++i) {
      runs.push_back(std::make_unique<BlockRun>(contest.configs[i], test, sessions[i]));
      SMELT_TRY(flush, CacheFlush::make(sessions[i].threads()));
      flushes.push_back(std::move(flush));
      BlockResult& result = runs[i]->result();
      result.cache_bytes = flushes[i]->cache_bytes();
      result.emptied_caches = flushes[i]->is_needed(result.bytes_between);
    }
    for (int64_t r = -1; r < flags_.repetitions; ++r)
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i]->result().emptied_caches) flushes[i]->run();
        SMELT_CHECK(runs[i]->run(r >= 0));
        progress_.add(1);
        if (r % kRunsBetweenMeasures == kRunsBetweenMeasures - 1) rooflines_.measure(sessions[i].threads());
      }
    for (size_t i = 0; i < runs.size(); ++i) {
      if (i > 0) runs[i]->compare_with(runs[0]->result());
      runs[i]->finish();
      BlockResult& result = runs[i]->result();
      rooflines_.measure(result.threads);
      result.bandwidth = rooflines_.of(result.threads);
      result.arithmetic = rooflines_.arithmetic(result.threads);
      result.cores = thread_count(0);
      if (!std::exchange(begun_, true)) print(report_.begin());
      print(report_.result(result));
    }
    return {};
  }

  uint64_t run_count() const {
    size_t runs = 0;
    for (const Contest& contest : contests_) runs += contest.configs.size() * contest.tests.size();
    return runs * static_cast<uint64_t>(flags_.repetitions + 1);
  }

  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const BenchFlags& flags_;
  const std::vector<Contest>& contests_;
  BlockReport report_;
  Progress progress_;
  Rooflines rooflines_;
  bool begun_ = false;
};

}  // namespace

Result<int> run_block_bench(const BenchFlags& flags, const std::vector<Contest>& contests) {
  BlockBench bench(flags, contests);
  SMELT_CHECK(bench.run());
  return interrupted() ? kExitInterrupted : 0;
}

}  // namespace smelt
