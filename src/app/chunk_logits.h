// The logits that a model gives for the chunks of a text, each from an empty context.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/session.h"

namespace smelt {

// What follows token `index` of a chunk.
using ChunkSink = std::function<void(int64_t chunk, int64_t index, std::span<const float> logits)>;

// Chunks first .. first + count - 1 of `ids`, all of `length` tokens.
struct ChunkRange {
  std::span<const int32_t> ids;
  int64_t length = 0, first = 0, count = 0;

  std::span<const int32_t> chunk(int64_t number) const { return ids.subspan(number * length, length); }
};

// As prompts, one after the other. An Error when `cancel` became true.
Status read_chunks(Session& session, const ChunkRange& range, const ChunkSink& sink, const std::atomic<bool>* cancel);

// Token by token, as answers are generated, and side by side: a step has one of each chunk. An Error likewise.
// REQUIRES: the engine has so many free sequences, with the one of the session.
Status decode_chunks(Session& session, const ChunkRange& range, const ChunkSink& sink, const std::atomic<bool>* cancel);

}  // namespace smelt
