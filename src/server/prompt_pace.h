// PromptPace: how many tokens of prompts a step reads while nobody generates. The more of a prompt has been read, the
// longer the same number of tokens takes, as each of them looks back on all before; and who comes with a short prompt
// waits for the step under way. So steps get fewer tokens where they would take longer than a full one has.
//
// It knows of no clock: the same steps give the same numbers. Answers do not depend on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace smelt {

class PromptPace {
 public:
  // `most` tokens, and never fewer than a quarter of them.
  explicit PromptPace(int64_t most) : most_(most), tokens_(most) {}

  int64_t tokens() const { return tokens_; }
  // A step that read so many tokens of prompts, and did nothing else.
  void record(int64_t tokens, double seconds) {
    if (tokens == most_) full_ = std::min(full_, seconds);
    if (tokens < tokens_ || seconds <= 0) return;  // what was left of a prompt says little
    const double fitting = static_cast<double>(tokens) * full_ / seconds, most = static_cast<double>(most_);
    const int64_t rounded = (static_cast<int64_t>(std::clamp(fitting, most / 4, most)) + 4) / 8 * 8;
    tokens_ = std::clamp(rounded, std::min<int64_t>(8, most_), most_);
  }

 private:
  const int64_t most_;
  int64_t tokens_;
  double full_ = std::numeric_limits<double>::infinity();  // seconds of the fastest step of `most_`
};

}  // namespace smelt
