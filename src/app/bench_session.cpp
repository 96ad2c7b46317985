#include "app/bench_session.h"

#include <cstdio>
#include <cstring>
#include <fstream>

#include "app/interrupt.h"
#include "app/stopwatch.h"
#include "model/hyperparameters.h"
#include "runtime/target.h"

namespace smelt {
namespace {

Status append(Session& session, std::span<const int32_t> tokens) {
  SMELT_TRY(logits, session.append(tokens, &interrupted()));
  (void)logits;
  return {};
}

std::string file_name_of(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

Result<BenchSession> BenchSession::open(const BenchConfig& config, int64_t context) {
  BenchSession out;
  SMELT_TRY(file, open_model(config.engine.model));
  out.file_ = std::make_unique<GgufFile>(std::move(file));
  SMELT_TRY(model, read_hyperparameters(*out.file_));
  SessionOptions options = session_options(config.engine);
  options.context = context;
  options.prefill_chunk = config.batch;
  options.use_kernel_cache = config.use_kernel_cache;
  SMELT_TRY(session, open_session(*out.file_, options));
  out.session_ = std::move(session);
  out.threads_ = thread_count(config.engine.threads);
  out.cache_row_bytes_ = model.layers * model.cache_width() * size_of(options.cache_type);
  (void)interrupted();  // from here on Ctrl-C is asked for between launches
  return out;
}

std::string BenchSession::model_name() const { return file_name_of(file_->path()); }

double BenchSession::bytes_per_token(const BenchTest& test) const {
  const double behind =
      static_cast<double>(test.depth + test.prompt) + static_cast<double>(test.tokens + 1) / 2;
  return static_cast<double>(stats().bytes_per_token) +
         behind * static_cast<double>(cache_row_bytes_);
}

// Random tokens: a model that talks to itself falls into a loop, keeps choosing the same experts and looks faster than it is.
std::vector<int32_t> BenchSession::random_tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& t : tokens)
    t = static_cast<int32_t>(random_() % static_cast<uint64_t>(session_->vocabulary_size()));
  return tokens;
}

Status BenchSession::fill(int64_t depth) {
  session_->rewind(std::min(filled_, depth));
  if (depth > filled_) SMELT_CHECK(append(*session_, random_tokens(depth - filled_)));
  filled_ = std::max(filled_, depth);
  return {};
}

Result<double> BenchSession::time(const BenchTest& test) {
  SMELT_CHECK(fill(test.depth));
  filled_ = test.depth;  // the test writes behind it
  const std::vector<int32_t> prompt = random_tokens(test.prompt),
                             tokens = random_tokens(test.tokens);
  Stopwatch watch;
  if (!prompt.empty()) SMELT_CHECK(append(*session_, prompt));
  for (const int32_t& token : tokens) SMELT_CHECK(append(*session_, {&token, 1}));
  return watch.lap();
}

int thread_count(int threads) {
  return threads > 0 ? threads : static_cast<int>(core_cpus().size());
}

int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lld", &kilobytes) == 1) return kilobytes * 1024;
  }
  return 0;
}

void reset_peak_memory() {
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

}  // namespace smelt
