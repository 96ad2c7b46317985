// Tokens into a session whose logits are of no interest, until the user stops it.
#pragma once

#include <span>

#include "engine/session.h"

namespace smelt {

// As a prompt.
Status append(Session& session, std::span<const int32_t> tokens);
// The same for sequences of an engine, without logits: [sequences, count] of a prompt each.
Status append(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens);
// One generated token of each, whose logits are left to the host.
Status extend_once(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens);
// Tokens of some sequences as generated ones, `steps` of each, those of a step side by side: [steps, sequences]. Behind
// each of them a token is chosen as a text would be written at temperature 0, where the device does that; elsewhere its
// logits are left to the host.
Status extend(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens);

}  // namespace smelt
