// DRY ("don't repeat yourself"): makes a token less likely that would go on with a repetition of what the text has said
// before, the more so the longer the repetition is.
//
//   text: a b c d ... a b c      "d" would make it four in a row: its logit loses
//                                multiplier * base^(3 - allowed_length)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smelt {

struct DryOptions {
  float multiplier = 0;         // 0: off
  float base = 1.75f;           // 1 or more
  int32_t allowed_length = 2;   // repetitions shorter than this are free
  int32_t last_n = -1;          // how many recent tokens it looks at; 0: none, negative: all
  std::vector<int32_t> breaks;  // tokens that no repetition goes across, and that are never made less likely; ascending
};

struct DryPenalty {
  int32_t token = 0;
  float penalty = 0;  // to be taken from its logit
  bool operator==(const DryPenalty&) const = default;
};

// At most one a token, by ascending token.
std::vector<DryPenalty> dry_penalties(const DryOptions& options, std::span<const int32_t> history);

}  // namespace smelt
