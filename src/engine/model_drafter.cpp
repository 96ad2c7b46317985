#include "engine/model_drafter.h"

#include <algorithm>

namespace smelt {
namespace {

constexpr size_t kFew = 4;  // tokens that are read faster one by one than as a prompt

}  // namespace

bool ModelDrafter::can_read(std::span<const int32_t> tokens) const {
  return std::all_of(tokens.begin(), tokens.end(), [&](int32_t t) { return t < session_->vocabulary_size(); });
}

// Brings the context to this text; the logits behind its last token.
Result<std::span<const float>> ModelDrafter::read(std::span<const int32_t> text) {
  const size_t most = std::min(text.size() - 1, tokens_.size());
  const auto same =
      std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(most), tokens_.begin()).first;
  session_->rewind(same - text.begin());
  const auto known = static_cast<size_t>(session_->position());
  tokens_.resize(known);
  const auto rest = text.subspan(known);
  Result<std::span<const float>> logits = std::span<const float>();
  if (rest.size() > kFew) {
    logits = session_->append(rest);
  } else {
    for (size_t i = 0; i < rest.size() && logits; ++i) logits = session_->extend(rest[i]);
  }
  if (logits) tokens_.assign(text.begin(), text.end());
  return logits;
}

Result<std::vector<DraftToken>> ModelDrafter::draft(std::span<const int32_t> text, int64_t most) {
  std::vector<DraftToken> out;
  const auto free = session_->context() - static_cast<int64_t>(text.size());
  if (most < 1 || free < most || !can_read(text)) return out;
  SMELT_TRY(logits, read(text));
  while (static_cast<int64_t>(out.size()) < most) {
    auto chosen = choice_.choose(logits);
    if (!chosen) break;
    const int32_t token = chosen->id;
    out.push_back(std::move(*chosen));
    if (static_cast<int64_t>(out.size()) == most) break;
    SMELT_TRY(next, session_->extend(token));
    tokens_.push_back(token);
    logits = next;
  }
  return out;
}

}  // namespace smelt
