// MtpDrafter: the guesses of a model's own head for multi-token prediction (model/mtp.h).
#pragma once

#include "engine/drafter.h"
#include "engine/session.h"

namespace smelt {

class MtpDrafter : public Drafter {
 public:
  // Drafts end before a token that is less likely than `least_probability`. REQUIRES: `session` outlives it, was opened
  // with `mtp`, and is the one that verifies.
  MtpDrafter(Session& session, double least_probability) : session_(session), least_(least_probability) {}

  Result<std::vector<DraftToken>> draft(std::span<const int32_t> text, int64_t most) override;

 private:
  Session& session_;
  double least_;
};

}  // namespace smelt
