// EnsureDump: what a failed ENSURE leaves behind, so that the failure can be repeated.
#pragma once

#include <functional>
#include <string>

namespace smelt {

class EnsureDump {
 public:
  // While it lives, ensure_failed() calls `leave`, which writes what is being worked on to a file and returns a
  // sentence about it; empty if it could not. Of several in a thread the innermost one is asked that has a function.
  explicit EnsureDump(std::function<std::string()> leave);
  ~EnsureDump();
  EnsureDump(const EnsureDump&) = delete;
  EnsureDump& operator=(const EnsureDump&) = delete;
};

}  // namespace smelt
