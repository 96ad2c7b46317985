// What /metrics says, as Prometheus reads it. Names and meanings are vLLM's where one fits.
#pragma once

#include <cstdint>
#include <string>

#include "server/backend.h"

namespace smelt {

// Requests since the start: of any kind, and those for text by how they ended.
struct ServerCounts {
  uint64_t requests = 0;
  uint64_t refused = 0, failed = 0, cancelled = 0, stopped = 0, cut = 0;
};

std::string metrics_text(const BackendLoad& load, const BackendCounts& counts, const ServerCounts& ended);

}  // namespace smelt
