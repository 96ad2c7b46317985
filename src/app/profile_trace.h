// A timeline in Chrome's trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <string>

#include "app/profile_collect.h"

namespace smelt {

// One event per launch and one per replay, times from the first replay on.
std::string chrome_trace(const ProfileCollector& collector, const Session& session);

}  // namespace smelt
