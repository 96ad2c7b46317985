// The lines of figures that a run ends with.
#pragma once

#include <string>
#include <vector>

#include "app/generate.h"
#include "engine/session.h"

namespace smelt {

// "load 0.01 s, compile 0.84 s (31 kernels compiled, 0 from the cache)"
std::string load_line(const EngineStats& stats);
// "prompt 12 tokens, 850.0 tok/s"
std::string prompt_line(const Generation& generation);
// "decode 127 tokens, 402.3 tok/s, 98 kernels and 8.21 MB a token, 3.30 GB/s"
// `cache_row`: bytes of the attention cache that each token before adds to what the next one reads.
std::string decode_line(const EngineStats& stats, const Generation& generation, uint64_t cache_row);

// "drafts 96, 71 right (by place 83 %, 65 %), 2.48 tokens a step, 1.21 times as fast as without"
std::string draft_line(const DraftCounts& counts);

// Of a list of step times: what --benchmark prints.
std::string benchmark_line(const EngineStats& stats, std::vector<double> step_seconds, uint64_t cache_row);

}  // namespace smelt
