#include "app/benchmark.h"

#include <cstdio>
#include <random>

#include "app/cache_size.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/statistics.h"
#include "app/stopwatch.h"

namespace smelt {
namespace {

constexpr int kWarmUpSteps = 4;  // pages of the file and caches of the processor

// Random tokens, the same in every run: a model that talks to itself falls into a loop, keeps choosing the same experts
// and looks faster than it is.
class TokenSource {
 public:
  explicit TokenSource(int64_t vocabulary) : vocabulary_(vocabulary) {}
  int32_t next() { return static_cast<int32_t>(random_() % static_cast<uint64_t>(vocabulary_)); }

 private:
  int64_t vocabulary_;
  std::mt19937_64 random_;
};

Status step(Session& session, int32_t token) {
  SMELT_TRY(logits, session.extend(token, &interrupted()));
  (void)logits;
  return {};
}

}  // namespace

Result<int> run_benchmark(const EngineFlags& flags, int tokens) {
  SMELT_TRY(engine, open_engine(flags));
  Session& session = *engine.session;
  if (kWarmUpSteps + tokens > session.context())
    return Error{"[run] --benchmark: " + std::to_string(tokens) + " tokens, and " + std::to_string(kWarmUpSteps) +
                 " to warm up, do not fit a context of " + std::to_string(session.context()) +
                 "; make it longer with -c, or time fewer"};
  TokenSource source(session.vocabulary_size());
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUpSteps + tokens && !interrupted(); ++i) {
    const int32_t token = source.next();
    Stopwatch watch;
    const Status done = step(session, token);
    if (interrupted()) break;
    SMELT_CHECK(done);
    if (i >= kWarmUpSteps) seconds.push_back(watch.lap());
  }
  const CacheReads reads = cache_reads(*engine.file, flags.cache_type);
  std::printf("%s\n", load_line(session.stats()).c_str());
  if (!seconds.empty()) std::printf("%s\n", benchmark_line(session.stats(), seconds, reads).c_str());
  return interrupted() ? kExitInterrupted : 0;
}

}  // namespace smelt
