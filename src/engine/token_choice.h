// TokenChoice: how one token is chosen, where that is done on the device. Sampler::choice() makes it.
#pragma once

#include "model/segment.h"
#include "model/token_choice.h"

namespace smelt {

struct TokenChoice {
  ChoiceKind kind = ChoiceKind::Greedy;
  ChoiceNumbers numbers = {};  // of ChoiceKind::Drawn
};

}  // namespace smelt
