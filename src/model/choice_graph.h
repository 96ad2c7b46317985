// The graph that chooses a token for each row of logits, by the rule of token_choice.h.
//
// Logits are cut into chunks, so that all of a GPU takes part: each chunk has partial results, and what is made of
// these is small. A limit is found digit by digit: chunks add up what is within the limit so far, for each value of the
// next digit.
#pragma once

#include "model/segment.h"
#include "model/token_choice.h"

namespace smelt {

// Of `rows` rows. Bound::Chosen has each row's token, then for each row how many of its logits are no finite numbers:
// such a row's token is some token.
Segment choice_graph(int64_t rows, int64_t vocabulary, ChoiceKind kind);

}  // namespace smelt
