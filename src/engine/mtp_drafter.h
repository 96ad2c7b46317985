// MtpDrafter: the guesses of a model's own head for multi-token prediction (model/mtp.h).
#pragma once

#include <utility>

#include "engine/draft_choice.h"
#include "engine/engine.h"

namespace smelt {

class MtpDrafter : public Drafter {
 public:
  // For a sequence of the engine that verifies. REQUIRES: `engine` outlives it, and was opened with `mtp`; the sequence
  // is there when a draft of tokens is asked for.
  MtpDrafter(Engine& engine, SequenceId sequence, DraftChoice choice)
      : engine_(engine), sequence_(sequence), choice_(std::move(choice)) {}

  void sample_like(const SamplerOptions& options) override { choice_.sample_like(options); }
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override;

 private:
  Engine& engine_;
  SequenceId sequence_;
  DraftChoice choice_;
};

}  // namespace smelt
