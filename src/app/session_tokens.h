// Tokens into a session whose logits are of no interest, until the user stops it.
#pragma once

#include <span>

#include "engine/session.h"

namespace smelt {

Status append(Session& session, std::span<const int32_t> tokens);  // as a prompt
Status extend(Session& session, int32_t token);                    // as a generated one

}  // namespace smelt
