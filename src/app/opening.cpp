#include "app/opening.h"

#include <cstdio>

#include "app/interrupt.h"
#include "app/text_of.h"

namespace smelt {
namespace {

constexpr uint64_t kPercent = 100;

}  // namespace

OpenHooks Opening::hooks() {
  return {.progress = [this](const char* stage, double fraction) { report(stage, fraction); },
          .note = [this](const std::string& sentence) { note(sentence); },
          .cancel = &interrupted()};
}

void Opening::report(const char* stage, double fraction) {
  std::lock_guard lock(mutex_);
  if (told_) told_(stage, fraction);
  if (!stages_.empty()) stages_.back().seconds += watch_.lap();
  if (stages_.empty() || stages_.back().name != stage) {
    stages_.push_back({stage});
    watch_.lap();
    bar_.reset();
    // Elsewhere than on a terminal, the figures at the end say how long it took.
    if (stderr_is_terminal()) bar_.emplace(stage, kPercent, ProgressUnit::parts);
  }
  stages_.back().fraction = fraction;
  if (bar_) bar_->set(static_cast<uint64_t>(fraction * kPercent));
}

void Opening::note(const std::string& sentence) {
  std::lock_guard lock(mutex_);
  bar_.reset();
  std::fprintf(stderr, "smelt: %s\n", sentence.c_str());
}

void Opening::say_where_it_stopped() {
  std::lock_guard lock(mutex_);
  bar_.reset();
  std::string where = "stopped: interrupted while opening the model", times;
  if (!stages_.empty()) {
    Stage& last = stages_.back();
    last.seconds += watch_.lap();
    where = text_of("stopped: interrupted while %s, %.0f %% done", last.name.c_str(), last.fraction * kPercent);
  }
  for (const Stage& stage : stages_)
    times += (times.empty() ? "" : ", ") + text_of("%s %.2f s", stage.name.c_str(), stage.seconds);
  std::fprintf(stderr, "%s\n", where.c_str());
  if (!times.empty()) std::fprintf(stderr, "%s\n", times.c_str());
}

}  // namespace smelt
