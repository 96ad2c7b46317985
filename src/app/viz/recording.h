// A recording: what a model became and what its runs cost, as one document (docs/visualiser.md). It is put together
// once the runs are over, from what they were timed at and from the compiler's steps, which are repeated for it.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/profile_run.h"
#include "base/clock.h"

namespace smelt {

// The stages of opening a model, with page faults.
class StartLog {
 public:
  OpenWatch watch();
  void finish();  // the model is open
  nlohmann::ordered_json json() const;

 private:
  struct Stage {
    std::string name;
    double begin = 0, end = 0;                   // seconds since this was made
    int64_t minor_faults = 0, major_faults = 0;  // of the process, at the beginning; afterwards within the stage
  };
  void enter(const std::string& name);

  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::vector<Stage> stages_;
};

// Runs what the flags say, or only looks at it (--machine), and records it. `model` is then the one that ran, if any.
Result<nlohmann::ordered_json> record_model(const ProfiledFlags& flags, ProfiledModel& model);

}  // namespace smelt
