// DraftRate: how many tokens to draft for each of the texts of one step, by the tokens a second that steps with so many
// of them have given. Where several texts are written side by side a step has less to give away: it reads more experts
// for each draft, and some texts have none. So what counts is the whole step, for each number of texts apart; none are
// drafted where that does not pay. What is not in use is tried again now and then, as texts and machines change: the
// more seldom the more a try has cost, since who has not drafted for a while may have to read a whole text first.
//
// It knows of no clock and draws nothing: the same steps give the same numbers. For one text see draft_length.h.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

namespace smelt {

class DraftRate {
 public:
  // `most` drafts for a text; `rows`: tokens and drafts that a step computes together.
  DraftRate(int64_t most, int64_t rows) : most_(most), rows_(rows) {}

  // Drafts for each text of a step, at most. REQUIRES: texts >= 1
  int64_t most(int64_t texts) const;
  int64_t next(int64_t texts);
  // A step for which next() said `asked` gave the texts so many tokens in so many seconds, drafting included.
  void record(int64_t texts, int64_t asked, int64_t tokens, double seconds);

 private:
  struct Step {
    double tokens = 0, seconds = 0;
  };
  struct Kind {
    std::deque<Step> steps;  // the last ones
    int64_t last = 0;        // number of the latest
    double cost = 0;         // seconds that it took beyond those that its tokens would have taken otherwise
    double since = 0;        // Crowd::seconds then
    double tokens_per_second() const;
  };
  struct Crowd {
    std::map<int64_t, Kind> kinds;  // by the number of drafts
    int64_t steps = 0;
    double seconds = 0;  // of all steps
    double fastest() const;
  };
  Crowd& crowd(int64_t texts);

  const int64_t most_, rows_;
  std::map<int64_t, Crowd> crowds_;  // by the number of texts
};

}  // namespace smelt
