// The sampling that the maker of a model recommends.
#pragma once

#include <optional>

#include "base/result.h"
#include "gguf/gguf.h"

namespace smelt {

// Where a member is empty, nothing is known.
struct RecommendedSampling {
  std::optional<float> temperature, top_p, min_p, repeat_penalty;
  std::optional<int32_t> top_k;  // 0: all tokens
};

// From the file's keys `general.sampling.*`, or else by its name (families.def).
Result<RecommendedSampling> recommended_sampling(const GgufFile& file);

}  // namespace smelt
