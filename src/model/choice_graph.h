// The graph that chooses a token for each row of logits, by the rule of token_choice.h.
//
// Logits are cut into chunks, so that all of a GPU takes part: each chunk has partial results, and what is made of
// these is small. A limit is found digit by digit: chunks add up what is within the limit so far, for each value of the
// next digit.
#pragma once

#include "model/segment.h"

namespace smelt {

// What a row of logits is to be chosen by. Rows of one run may differ in their numbers.
enum class ChoiceKind {
  Greedy,  // the best one, the first of equal ones: no numbers
  Drawn,   // Choice below
};

// Columns of Bound::Choices.
enum class Choice {
  TopK,      // how many at least; as many as there are tokens: all
  TopP,      // share_of()
  MinP,      // distance_of()
  Scale,     // scale_of()
  Random,    // kRandomBits of them
  IsGreedy,  // 1: the best one, whatever else is said
  kCount
};
constexpr int64_t kChoiceNumbers = static_cast<int64_t>(Choice::kCount);

// Of `rows` rows. Bound::Chosen has each row's token, then for each row how many of its logits are no finite numbers:
// such a row's token is some token.
Segment choice_graph(int64_t rows, int64_t vocabulary, ChoiceKind kind);

}  // namespace smelt
