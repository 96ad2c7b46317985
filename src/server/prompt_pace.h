// PromptPace: how many tokens of prompts a step reads, by the time that steps before it took. Who comes with a short
// prompt waits for the step under way, and who generates waits for it between two tokens; but the more tokens a step
// has, the faster they are read. So it gets as many as fit into some time:
//
//   `seconds`, but no more than `most` tokens take at the begin of a prompt, and no less than `usual` tokens take there
//
// On a slow machine that is the last: a step has `usual` tokens, whatever they take. The more of a prompt has been
// read, the longer the same number of tokens takes, as each of them looks back on all before; steps then get fewer of
// them, down to `least`.
//
// It knows of no clock: the same steps give the same numbers. Answers do not depend on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace smelt {

// REQUIRES: 0 < least <= usual <= most.
struct PromptPaceOptions {
  double seconds = 0;
  int64_t usual = 512, least = usual / 4, most = usual;
  int64_t tile = 8;  // other numbers than these are multiples of it, as a run is filled up to one
};

class PromptPace {
 public:
  explicit PromptPace(const PromptPaceOptions& options) : options_(options), tokens_(options.usual) {}

  int64_t tokens() const { return tokens_; }
  // A step that has read so many tokens of prompts.
  void record(int64_t tokens, double seconds) {
    if (tokens < tokens_ || seconds <= 0) return;  // what was left of a prompt says little
    const double each = seconds / static_cast<double>(tokens);
    if (tokens >= options_.usual) fastest_ = std::min(fastest_, each);
    const double fitting = std::min(seconds_of_step() / each, static_cast<double>(options_.most));
    if (const auto had = static_cast<double>(tokens_); fitting < had && had <= kSlack * fitting) return;
    const int64_t tiles = (static_cast<int64_t>(fitting) + options_.tile / 2) / options_.tile;
    tokens_ = std::clamp(tiles * options_.tile, options_.least, options_.most);
  }

 private:
  static constexpr double kSlack = 1.1;  // steps of one size differ by as much, and are not made shorter for it

  double seconds_of_step() const {
    const auto at_begin = [&](int64_t tokens) { return static_cast<double>(tokens) * fastest_; };
    return std::clamp(options_.seconds, at_begin(options_.usual), at_begin(options_.most));
  }

  const PromptPaceOptions options_;
  int64_t tokens_;
  double fastest_ = std::numeric_limits<double>::infinity();  // seconds of a token, of steps of `usual` and more
};

}  // namespace smelt
