// The lines of figures that a run ends with.
#pragma once

#include <string>
#include <vector>

#include "app/generate.h"
#include "engine/cache_reads.h"
#include "engine/session.h"

namespace smelt {

// "load 0.01 s, compile 0.84 s (31 kernels compiled, 0 from the cache)"
std::string load_line(const EngineStats& stats);
// "prompt 12 tokens, 850.0 tok/s"
std::string prompt_line(const Generation& generation);
// "decode 127 tokens, 402.3 tok/s, 98 kernels and 8.21 MB a token, 3.30 GB/s"
// Bytes are those of weights and of the attention cache.
std::string decode_line(const EngineStats& stats, const Generation& generation, const CacheReads& reads);

// "drafts 96, 71 right (by place 83 %, 65 %), 2.48 tokens a step, 1.21 times as fast as without"
std::string draft_line(const DraftCounts& counts);

// "8 of 16 threads, ": so many were fastest; nothing where all are.
std::string threads_text(const EngineStats& stats);

// Of a list of step times: what --benchmark prints.
std::string benchmark_line(const EngineStats& stats, std::vector<double> step_seconds, const CacheReads& reads);

}  // namespace smelt
