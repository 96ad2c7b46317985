// DraftLength: how many tokens to draft, by what was measured: what a step with so many of them takes, and how often
// the first, second ... of them is right. The length that gives most tokens per second is taken, 0 where drafts do not
// pay. Lengths that are not in use are tried again now and then, as texts and machines change: the more seldom the more
// a try has cost, since who has not drafted for a while may have to read a whole text first.
//
// It knows of no clock and draws nothing: the same steps give the same lengths.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace smelt {

class DraftLength {
 public:
  explicit DraftLength(int64_t most);

  int64_t next();  // for the coming step
  // A step of `drafted` tokens, of which the first `accepted` were right.
  void record(int64_t drafted, int64_t accepted, double seconds);

  // By what was measured so far; 0: nothing yet.
  double tokens_per_second(int64_t length) const;
  double seconds(int64_t length) const;  // of a step with so many drafts

 private:
  // Steps with a like number of drafts, which go through the same plan.
  struct Kind {
    std::deque<double> seconds;  // of the last steps
    int64_t last_step = 0;
    double cost = 0;   // seconds that it takes beyond those that its tokens would have taken otherwise
    double since = 0;  // all_seconds_ at the latest
  };
  double fastest() const;  // tokens a second of the lengths that are known; 0: none
  double expected_tokens(int64_t length) const;

  std::vector<int64_t> lengths_;  // that are tried, ascending
  std::vector<Kind> kinds_;
  std::vector<double> right_;  // of the first draft, the second ...: how often it is, where those before it are
  int64_t steps_ = 0;
  int64_t last_drafts_ = 0;  // step
  double cost_of_step_ = 0;  // seconds that drafts take longer for each step since the last ones: what is read first
  double all_seconds_ = 0;
};

}  // namespace smelt
