// Ctrl-C: the first asks the work to stop, so that what was done is still reported; the second ends
// the program at once.
#pragma once

#include <atomic>

namespace smelt {

// Becomes true when the user presses Ctrl-C. The first call starts to listen.
const std::atomic<bool>& interrupted();

}  // namespace smelt
