#include "engine/mtp_drafter.h"

#include "engine/draft_choice.h"

namespace smelt {

Result<std::vector<DraftToken>> MtpDrafter::draft(std::span<const int32_t> text, int64_t most) {
  const auto choose = [&](std::span<const float> logits) { return likely_token(logits, least_); };
  SMELT_TRY(tokens, session_.draft(text.back(), most, choose));
  std::vector<DraftToken> out;
  for (int32_t token : tokens) out.push_back({token});
  return out;
}

}  // namespace smelt
