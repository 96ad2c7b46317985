// Speculation: drafts for each step of one sequence, as many of them as pay, and what came of them.
//
// Who generates asks for drafts, verifies them in one step (Session::extend_all), and says what it kept and how long
// all of that took. The text does not depend on any of it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/draft_length.h"
#include "engine/drafter.h"

namespace smelt {

struct DraftOptions {
  int64_t most = 0;      // tokens drafted for a step
  int64_t least = 0;     // fewer are not worth a step: they are dropped, unless they were drawn
  bool adaptive = true;  // as many as pay, by what is measured; else always the most
};

struct DraftCounts {
  struct Place {
    int64_t drafted = 0, accepted = 0;
  };
  std::vector<Place> places;      // the first draft of a step, the second ...
  int64_t steps = 0, tokens = 0;  // of all steps: with drafts and without; the tokens that they gave
  double seconds = 0;             // drafting included
  int64_t single_steps = 0;       // those without drafts
  double single_seconds = 0;

  int64_t drafted() const;
  int64_t accepted() const;
  // How many times as fast the tokens came as single steps would have given them; 0: nobody knows.
  double net_ratio() const;
};

class Speculation {
 public:
  Speculation(std::shared_ptr<Drafter> drafter, const DraftOptions& options);

  const std::shared_ptr<Drafter>& drafter() const { return drafter_; }

  void sample_like(const SamplerOptions& options) { drafter_->sample_like(options); }

  // Up to `room` tokens that may follow `text`, see Drafter.
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t room);
  // What came of them: the step took `seconds`, drafting included.
  void record(int64_t drafted, int64_t accepted, double seconds);

  const DraftCounts& counts() const { return counts_; }

 private:
  std::shared_ptr<Drafter> drafter_;
  DraftOptions options_;
  DraftLength length_;
  DraftCounts counts_;
};

}  // namespace smelt
