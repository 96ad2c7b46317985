#include "app/bench_session.h"

#include "app/interrupt.h"
#include "app/session_tokens.h"
#include "app/stopwatch.h"
#include "base/progress.h"
#include "engine/cache_reads.h"
#include "runtime/target.h"

namespace smelt {
namespace {

// Seconds from a session's start to its first weight. It is told to stop there.
Result<double> time_compile(const GgufFile& file, EngineOptions options, bool use_kernel_cache) {
  options.use_kernel_cache = use_kernel_cache;
  std::atomic<bool> enough = false;
  double seconds = 0;
  std::optional<Progress> bar;  // elsewhere than on a terminal, the figures say how long it took
  if (stderr_is_terminal()) bar.emplace(use_kernel_cache ? "compiling" : "compiling anew", 100);
  Stopwatch watch;
  const auto progress = [&](const std::string& what, double fraction) {
    if (what == "loading") {
      if (!enough.exchange(true)) seconds = watch.lap();
    } else {
      if (bar) bar->set(static_cast<uint64_t>(100 * fraction));
      if (interrupted()) enough = true;
    }
  };
  const auto session = Session::open(file, options, {.progress = progress, .cancel = &enough});
  if (!enough && !session) return session.error();
  return seconds;
}

}  // namespace

Result<BenchSession> BenchSession::open(const BenchConfig& config, int64_t context) {
  (void)interrupted();  // from here on Ctrl-C is asked for
  BenchSession out;
  SMELT_TRY(file, ModelSource::open(config.engine, config.synthetic));
  out.file_ = std::move(file);
  SMELT_TRY(model, read_model(out.file()));
  out.model_ = std::move(model);
  EngineOptions options = session_options(config.engine);
  options.context = context;
  options.prefill_chunk = config.batch;
  options.use_kernel_cache = config.use_kernel_cache;
  if (config.times_compile) {
    SMELT_TRY(cold, time_compile(out.file(), options, false));
    out.cold_compile_ = cold;
    // So that the session finds all of its kernels in the cache.
    if (config.use_kernel_cache) SMELT_CHECK(time_compile(out.file(), options, true));
  }
  SMELT_TRY(session, open_session(out.file(), options));
  out.session_ = std::move(session);
  out.file_.release_pages();
  out.threads_ = thread_count(config.engine.threads);
  out.cache_type_ = options.cache_type;
  return out;
}

double BenchSession::bytes_per_token(const BenchTest& test) const {
  const int64_t first = test.depth + test.prompt, end = first + std::max<int64_t>(1, test.tokens);
  return static_cast<double>(stats().bytes_per_token) + CacheReads::of(*model_, cache_type_).each(first, end);
}

// Random tokens: a model that talks to itself falls into a loop, keeps choosing the same experts and looks faster than
// it is.
std::vector<int32_t> BenchSession::random_tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random_() % static_cast<uint64_t>(session_->vocabulary_size()));
  return tokens;
}

Status BenchSession::fill(int64_t depth) {
  session_->rewind(std::min(filled_, depth));
  filled_ = session_->position();  // some models may go back further
  if (depth > filled_) SMELT_CHECK(append(*session_, random_tokens(depth - filled_)));
  filled_ = std::max(filled_, depth);
  return {};
}

Result<double> BenchSession::time(const BenchTest& test) {
  SMELT_CHECK(fill(test.depth));
  filled_ = test.depth;  // the test writes behind it
  const std::vector<int32_t> prompt = random_tokens(test.prompt), tokens = random_tokens(test.tokens);
  Stopwatch watch;
  if (!prompt.empty()) SMELT_CHECK(append(*session_, prompt));
  const SequenceId sequence = session_->sequence();
  SMELT_CHECK(extend(session_->engine(), {&sequence, 1}, tokens));
  return watch.lap();
}

}  // namespace smelt
