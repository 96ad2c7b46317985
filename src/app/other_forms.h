// `smelt profile --what-if`: other forms of a model's blocks that give the same values (egraph/), and what they would
// save. A report for people: the engine computes the blocks as the model writes them.
#pragma once

#include <string>

#include "engine/model_plans.h"
#include "gguf/gguf.h"

namespace smelt {

// Of each kind of block, for one token behind `depth` others: the bytes that it moves on this machine as it is written,
// in the best of its equal forms, and in the best one if products of two matrices could be rounded to a format of
// theirs, which would make another model. REQUIRES: `plans` are made from `file`, for `machine`.
std::string other_forms(const ModelPlans& plans, const GgufFile& file, const Machine& machine, int64_t depth);

}  // namespace smelt
