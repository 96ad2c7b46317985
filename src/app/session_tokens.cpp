#include "app/session_tokens.h"

#include "app/interrupt.h"

namespace smelt {

Status append(Session& session, std::span<const int32_t> tokens) {
  SMELT_TRY(logits, session.append(tokens, &interrupted()));
  (void)logits;
  return {};
}

Status extend(Session& session, int32_t token) {
  SMELT_TRY(logits, session.extend(token, &interrupted()));
  (void)logits;
  return {};
}

}  // namespace smelt
