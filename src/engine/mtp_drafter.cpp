#include "engine/mtp_drafter.h"

namespace smelt {

Result<std::vector<DraftToken>> MtpDrafter::draft(std::span<const int32_t> text, int64_t most) {
  std::vector<DraftToken> out;
  const auto choose = [&](std::span<const float> logits) -> std::optional<int32_t> {
    auto chosen = choice_.choose(logits);
    if (!chosen) return std::nullopt;
    out.push_back(std::move(*chosen));
    return out.back().id;
  };
  SMELT_TRY(tokens, engine_.draft(sequence_, text.back(), most, choose));
  (void)tokens;
  return out;
}

}  // namespace smelt
