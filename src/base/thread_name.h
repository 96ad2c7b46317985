// The name of a thread, for those who look from outside: top -H, perf, /proc/PID/task/*/comm.
#pragma once

namespace smelt {

// Names the calling thread. `name`: at most 15 bytes.
void name_thread(const char* name);

}  // namespace smelt
