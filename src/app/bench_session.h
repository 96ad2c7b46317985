// One session of a benchmark: opened for a configuration, timed on tests.
#pragma once

#include <memory>
#include <random>

#include "app/bench_flags.h"

namespace smelt {

class BenchSession {
 public:
  static Result<BenchSession> open(const BenchConfig& config, int64_t context);

  // Seconds that a test takes; filling the context up to its depth is not counted. An Error when interrupted.
  Result<double> time(const BenchTest& test);

  // Bytes that a token of a decoding test has to bring in: weights, and the cache rows behind it on average.
  double bytes_per_token(const BenchTest& test) const;

  const SessionStats& stats() const { return session_->stats(); }
  std::string model_name() const;
  uint64_t file_bytes() const { return file_->file_bytes(); }
  int threads() const { return threads_; }

 private:
  BenchSession() = default;
  Status fill(int64_t depth);
  std::vector<int32_t> random_tokens(int64_t count);

  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<Session> session_;
  std::mt19937_64 random_;  // the same tokens in every run of the program
  int threads_ = 0;
  int64_t filled_ = 0;           // the first so many positions hold what fill() put there
  int64_t cache_row_bytes_ = 0;  // of all layers
};

// The cores that -t N stands for.
int thread_count(int threads);

// Bytes of this process's memory that were resident at once, since the last reset.
int64_t peak_memory();
void reset_peak_memory();  // where the system cannot, the peak of the whole process stays

}  // namespace smelt
