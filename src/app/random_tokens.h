// Tokens to measure with.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/session.h"

namespace smelt {

// `count` tokens of the session's vocabulary, the same in every run.
std::vector<int32_t> random_tokens(const Session& session, int64_t count);

}  // namespace smelt
