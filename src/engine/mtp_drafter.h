// MtpDrafter: the guesses of a model's own head for multi-token prediction (model/mtp.h).
#pragma once

#include <utility>

#include "engine/draft_choice.h"
#include "engine/session.h"

namespace smelt {

class MtpDrafter : public Drafter {
 public:
  // REQUIRES: `session` outlives it, was opened with `mtp`, and is the one that verifies.
  MtpDrafter(Session& session, DraftChoice choice) : session_(session), choice_(std::move(choice)) {}

  void sample_like(const SamplerOptions& options) override { choice_.sample_like(options); }
  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override;

 private:
  Session& session_;
  DraftChoice choice_;
};

}  // namespace smelt
