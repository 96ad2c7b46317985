// How the tokens of prompts that one step computes are divided among the prompts that are being read.
//
// Half of them goes to the prompt that came first, which so comes to its end whoever comes after it; the rest goes to
// those with least left. Where prompts come to their end, the others get no more than these, or a sixteenth of the
// step: somebody waits for that end. A short prompt then waits for the step under way and from there takes at most
// twice the time that it takes alone, however long the others are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smelt {

// How many tokens of each prompt. `rests`: how many each has left (> 0), in the order in which they came.
std::vector<int64_t> prompt_shares(std::span<const int64_t> rests, int64_t tokens);

// Their numbers in the order in which a step computes them: the shortest first.
std::vector<size_t> prompt_order(std::span<const int64_t> rests);

}  // namespace smelt
