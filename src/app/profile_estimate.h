// A profile of a machine on which nothing is run: what each kernel should take there, by its description.
#pragma once

#include "app/profile_data.h"
#include "engine/model_plans.h"

namespace smelt {

// Of a token behind `depth` others, and of a prompt; 0 prompt tokens: of the token alone. Times are those of
// engine/tune_estimate.h: they say which kernels matter, and are no promise. An Error if the tokens do not fit the
// context.
Result<Profile> estimated_profile(const ModelPlans& listing, const Machine& machine, int64_t prompt_tokens,
                                  int64_t depth);

}  // namespace smelt
