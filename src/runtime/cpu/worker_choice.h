// WorkerChoice: with how many workers a plan runs fastest, found out by its own first runs. Short launches cost more
// barriers than work where many workers share them: on 16 cores a small model was a fifth faster with 8.
//
// Runs are tried with all workers, then with half of them, and so on while that is faster. Only plans whose runs are
// short are tried: where a run takes long, waits are a small part of it, and a try with few workers costs more than it
// can bring. After many runs it looks again, as other programs come and go.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace smelt {

class WorkerChoice {
 public:
  explicit WorkerChoice(int most) : most_(most), tried_(most), best_(most), is_settled_(most == 1) {}

  int workers() const { return tried_; }  // for the next run
  // It took so long. Runs with other values of symbols had other work to do, and are not compared.
  void took(int64_t nanoseconds, std::span<const int64_t> symbols);

  static constexpr int kWarmUp = 3, kRuns = 7;       // not counted, and counted, for each number of workers
  static constexpr int kRunsUntilAgain = 4000;       // 1 % of them are tries
  static constexpr int64_t kLongestRun = 4'000'000;  // nanoseconds
  static constexpr double kGain = 0.95;              // of the time: what fewer workers have to reach

 private:
  void judge(int64_t typical);
  void settle();

  const int most_;
  int tried_, best_;
  bool is_settled_;
  int64_t best_time_ = 0, runs_ = 0;
  std::vector<int64_t> times_, symbols_;
};

// Those of a plan: one for runs of about as much work each, whose symbols differ by less than twice. What is best for a
// prompt of a few tokens is not for one of many.
class WorkerChoices {
 public:
  explicit WorkerChoices(int most) : most_(most) {}

  int workers(std::span<const int64_t> symbols) { return of(symbols).workers(); }  // for the next run with these
  void took(int64_t nanoseconds, std::span<const int64_t> symbols) { of(symbols).took(nanoseconds, symbols); }

 private:
  WorkerChoice& of(std::span<const int64_t> symbols);

  const int most_;
  std::map<uint64_t, WorkerChoice> by_work_;
};

}  // namespace smelt
