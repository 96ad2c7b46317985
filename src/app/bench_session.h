// One session of a benchmark: opened for a configuration, timed on tests.
#pragma once

#include <memory>
#include <optional>
#include <random>

#include "app/bench_flags.h"
#include "app/model_source.h"
#include "model/model.h"

namespace smelt {

class BenchSession {
 public:
  static Result<BenchSession> open(const BenchConfig& config, int64_t context);

  // Seconds that a test takes; filling the context up to its depth is not counted. An Error when interrupted.
  Result<double> time(const BenchTest& test);

  // Bytes that a token of a decoding test has to bring in: weights, and cache rows on average.
  double bytes_per_token(const BenchTest& test) const;

  Session& session() { return *session_; }
  EngineStats stats() const { return session_->stats(); }
  const GgufFile& file() const { return file_.file(); }
  const Model& model() const { return *model_; }
  std::optional<double> cold_compile() const { return cold_compile_; }  // seconds, if asked for
  DType cache_type() const { return cache_type_; }
  int threads() const { return threads_; }
  int64_t chunk() const { return session_->loaded().layout().prefill_tokens; }  // tokens of a prompt at once, at most

 private:
  BenchSession() = default;
  Status fill(int64_t depth);
  std::vector<int32_t> random_tokens(int64_t count);

  ModelSource file_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Session> session_;
  std::mt19937_64 random_;  // the same tokens in every run of the program
  std::optional<double> cold_compile_;
  int threads_ = 0;
  int64_t filled_ = 0;  // the first so many positions hold what fill() put there
  DType cache_type_ = DType::F32;
};

}  // namespace smelt
