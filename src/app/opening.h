// What the user sees of a session that opens: a bar for each stage on a terminal, notes, and, when Ctrl-C ends it, how
// far it came.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/stopwatch.h"
#include "base/progress.h"
#include "engine/session.h"

namespace smelt {

// Told of the stages of opening, as OpenHooks::progress is.
using OpenWatch = std::function<void(const char* stage, double fraction)>;

class Opening {
 public:
  explicit Opening(OpenWatch watch = {}) : told_(std::move(watch)) {}

  // For Session::open. REQUIRES: this outlives that call.
  OpenHooks hooks();

  // "stopped: interrupted while loading, 43 % done" and a line of times. Called by any thread.
  void say_where_it_stopped();

 private:
  void report(const char* stage, double fraction);
  void note(const std::string& sentence);

  struct Stage {
    std::string name;
    double seconds = 0, fraction = 0;
  };
  const OpenWatch told_;
  std::mutex mutex_;
  std::vector<Stage> stages_;  // the last one is under way
  Stopwatch watch_;            // since its last report
  std::optional<Progress> bar_;
};

}  // namespace smelt
