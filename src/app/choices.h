// How often a model finds the right one of several answers: the one whose tokens are likeliest, in the mean of their
// logarithms.
#pragma once

#include <span>
#include <vector>

#include "engine/session.h"
#include "evaluation/choice_tasks.h"
#include "text/tokenizer.h"

namespace smelt {

// Tasks that were done, and those whose right answer was found.
struct ChoiceScore {
  int64_t done = 0, right = 0;
  double accuracy() const { return static_cast<double>(right) / static_cast<double>(done); }
  // Where the accuracy over all such tasks lies with 95 % (E. B. Wilson, 1927).
  struct Interval {
    double low = 0, high = 0;
  };
  Interval interval() const;
};

// Log probabilities of the answers' tokens, their mean for each text of a task. An Error if a text does not fit the
// context, or when `cancel` becomes true.
Result<std::vector<double>> score_answers(Session& session, const Tokenizer& tokenizer, const ChoiceTask& task,
                                          const std::atomic<bool>* cancel);

}  // namespace smelt
