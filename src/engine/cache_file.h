// The rows that a sequence has in the attention cache, in a file: whoever goes on with a conversation later computes
// only what is new, with the bits that it would have had without leaving.
//
//   magic "smeltrow" | u32 format | u32 identity bytes | u64 tokens | u32 local pages | u32 pieces
//   u64 bytes of all pieces | u64 checksum of the front | identity text | u32 of each token: id, highest bit: generated
//   u64 checksum of each piece | pieces
//
// Pieces are those of Engine::Pieces: pages; where layers have windows, local pages, the last ones of the sequence; of
// a model with recurrent states the state.
//
// The identity is what the rows depend on: model, kind of cache and its parts, activations, layout of weights, device
// and program. A file is used if this is that of the engine, nothing is missing and all checksums (xxh3) are right.
// It appears by a rename, whole or not at all, readable by this user only, and only one that belongs to this user and
// that others cannot write to is believed: its rows may say something else than its tokens.
#pragma once

#include <string>

#include "engine/engine.h"

namespace smelt {

// Of a sequence without tokens there is nothing to keep: then no file is written.
Status write_cache_file(Engine& engine, SequenceId sequence, const std::string& path);

// An Error is one sentence why the file cannot serve, and the sequence has no tokens then. REQUIRES: it has none
// before.
Status read_cache_file(Engine& engine, SequenceId sequence, const std::string& path);

}  // namespace smelt
