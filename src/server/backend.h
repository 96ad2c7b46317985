// Backend: what the server asks of an engine. A request of token ids goes in, a stream of events comes out; what tokens
// mean, and what clients are told, is the business of those above.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/logprobs.h"
#include "engine/sampler.h"
#include "grammar/constraint.h"
#include "server/histogram.h"

namespace smelt {

struct GenerationRequest {
  std::vector<int32_t> prompt;  // not empty, shorter than the context
  SamplerOptions sampler = {};
  int64_t max_tokens = -1;                              // negative: until it stops or the context is full
  std::vector<int32_t> stops = {};                      // tokens that end it, ascending; not given out
  std::shared_ptr<const TokenMasks> grammar = nullptr;  // what the text has to be; none: anything
  std::string grammar_after = {};                       // holds from behind this text on; empty: from the start
  int32_t top_logprobs = -1;                            // how many an event has for each token; negative: no logprobs
  uint64_t cache_owner = 0;  // what is in the cache serves only requests of the owner that it was computed for
};

enum class Finish { Stop, Length, Cancelled, Failed };

struct GenerationEnd {
  Finish reason = Finish::Stop;
  std::string error = {};  // why it failed
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;          // of the prompt: computed for an earlier request
  int64_t tokens = 0;                 // given out
  int64_t drafted = 0, accepted = 0;  // drafts, and those of them that were right
  double prompt_seconds = 0, decode_seconds = 0;
};

struct GenerationEvent {
  std::vector<int32_t> tokens = {};       // new ones
  std::vector<Logprobs> logprobs = {};    // of each of them, where they were asked for
  std::optional<GenerationEnd> end = {};  // of the last event
};

struct BackendLoad {
  int running = 0, waiting = 0;
  bool is_full = false;      // no more can wait
  double bandwidth = 0;      // bytes a second that the device reads from its memory; 0: not known
  double cache_use = 0;      // share of the cache that those who run hold, of 1
  std::string failure = {};  // why no request is taken any more; empty: they are
};

// Since the start. Times are in seconds.
struct BackendCounts {
  uint64_t steps = 0, preemptions = 0;
  uint64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
  uint64_t drafts = 0, drafted = 0,
           accepted = 0;  // times that a text had drafts, their tokens, and those that were right
  double prompt_seconds = 0, decode_seconds = 0;  // of those that have ended
  // Of steps that only generated: what they took, and the bytes of weights that they had to read.
  double generating_seconds = 0, generating_bytes = 0;
  Histogram queued = Histogram::of_seconds(), first_token = Histogram::of_seconds(),
            between_tokens = Histogram::of_seconds(), whole = Histogram::of_seconds();
};

// A sequence that runs.
struct BackendSlot {
  uint64_t request = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0;
  int64_t context_tokens = 0;  // in the cache so far
  int64_t tokens = 0;          // given out
};

class Backend {
 public:
  using Id = uint64_t;
  // Called from any thread, but for one request never twice at a time and in order. Does not call the backend.
  using Sink = std::function<void(GenerationEvent)>;

  virtual ~Backend() = default;
  // An Error: too many requests wait already, or load().failure. Otherwise exactly one event with an `end` comes, after
  // all others.
  virtual Result<Id> submit(GenerationRequest request, Sink sink) = 0;
  // It ends within a step or chunk, as Cancelled. Nothing happens if it has ended.
  virtual void cancel(Id id) = 0;
  virtual BackendLoad load() const = 0;
  virtual BackendCounts counts() const = 0;
  virtual std::vector<BackendSlot> slots() const = 0;
};

}  // namespace smelt
