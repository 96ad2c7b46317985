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

namespace smelt {

struct GenerationRequest {
  std::vector<int32_t> prompt;  // not empty, shorter than the context
  SamplerOptions sampler = {};
  int64_t max_tokens = -1;                              // negative: until it stops or the context is full
  std::vector<int32_t> stops = {};                      // tokens that end it, ascending; not given out
  std::shared_ptr<const TokenMasks> grammar = nullptr;  // what the text has to be; none: anything
  std::string grammar_after = {};                       // holds from behind this text on; empty: from the start
  int32_t top_logprobs = -1;                            // how many an event has for each token; negative: no logprobs
};

enum class Finish { Stop, Length, Cancelled, Failed };

struct GenerationEnd {
  Finish reason = Finish::Stop;
  std::string error = {};  // why it failed
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt: computed for an earlier request
  int64_t tokens = 0;         // given out
  double prompt_seconds = 0, decode_seconds = 0;
};

struct GenerationEvent {
  std::vector<int32_t> tokens = {};       // new ones
  std::vector<Logprobs> logprobs = {};    // of each of them, where they were asked for
  std::optional<GenerationEnd> end = {};  // of the last event
};

struct BackendLoad {
  int running = 0, waiting = 0;
};

class Backend {
 public:
  using Id = uint64_t;
  // Called from any thread, but for one request never twice at a time and in order. Does not call the backend.
  using Sink = std::function<void(GenerationEvent)>;

  virtual ~Backend() = default;
  // An Error: too many requests wait already. Otherwise exactly one event with an `end` comes, after all others.
  virtual Result<Id> submit(GenerationRequest request, Sink sink) = 0;
  // It ends within a step or chunk, as Cancelled. Nothing happens if it has ended.
  virtual void cancel(Id id) = 0;
  virtual BackendLoad load() const = 0;
};

}  // namespace smelt
