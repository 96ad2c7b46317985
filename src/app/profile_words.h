// What a launch computes, in words: the weights it multiplies with, the values it starts from, the operations.
//
//   attn_q_a, attn_kv_a_mqa of rms-normed hidden -> temp 2 (rms norm, 768 sums of 2048, 576 sums of 2048)
#pragma once

#include <string>

#include "codegen/cost.h"
#include "engine/profile.h"

namespace smelt {

std::string launch_in_words(const PlanLaunch& launch, Ref tree, const KernelCost& cost);

// Where the model's source says so: "mla.cpp:68". Empty where nothing is known.
std::string lines_in_words(const PlanLaunch& launch);

// The part of the model that a launch belongs to: "embed", "attention", "router", "experts", "shared expert", "dense
// ffn", "head". A launch that touches neither a weight of a part nor the cache belongs to the one before it,
// `previous`.
std::string stage_of(const PlanLaunch& launch, const std::string& previous);

}  // namespace smelt
