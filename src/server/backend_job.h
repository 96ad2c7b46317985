// A request in an EngineBackend: what it is to have, what has been computed of it, and who waits for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "engine/verification.h"
#include "server/engine_backend.h"
#include "server/generation.h"

namespace smelt {

constexpr SequenceId kNoSequence = -1;

struct EngineBackend::Job {
  Job(GenerationRequest request, const Tokenizer& tokenizer, int64_t context, Sink where)
      : generation(std::move(request), tokenizer, context), sink(std::move(where)) {
    for (int32_t token : generation.request().prompt) tokens.push_back({token, false});
    end.prompt_tokens = static_cast<int64_t>(tokens.size());
  }

  // How many tokens from `position` on came in the same way.
  int64_t same_kind(int64_t position) const {
    const auto first = tokens.begin() + position;
    const auto other = [&](const CachedToken& token) { return token.is_generated != first->is_generated; };
    return std::find_if(first, tokens.end(), other) - first;
  }
  // The first ones that are of a prompt, and one more: an engine does not look for the last of them.
  std::vector<int32_t> prompt_tokens() const {
    const auto generated = std::find_if(tokens.begin(), tokens.end(), [](CachedToken t) { return t.is_generated; });
    std::vector<int32_t> ids;
    for (auto token = tokens.begin(); token != tokens.end() && token <= generated; ++token) ids.push_back(token->id);
    return ids;
  }
  // What a token that was chosen says of its draft.
  void judge(const Generation::Next& next) {
    const int64_t before = verification->accepted();
    if (next.finish)
      verification->end();
    else
      verification->take(*next.token);
    end.accepted += verification->accepted() - before;
  }
  GenerationEvent last_event(Finish reason, const std::string& error = {}) {
    end.reason = reason;
    end.error = error;
    end.tokens = generation.tokens();
    return {.end = end};
  }

  Id id = 0;
  Generation generation;
  const Sink sink;
  std::atomic<bool> cancel = false;
  std::vector<CachedToken> tokens;  // that its sequence has, or is to have
  bool has_started = false;         // it has had a sequence
  SequenceId sequence = kNoSequence;
  // What the step under way computes: tokens from `begin` on, and drafts behind them.
  int64_t begin = 0;
  std::vector<int32_t> part;
  std::vector<DraftToken> drafts;
  std::optional<Verification> verification;
  bool is_over = false;  // its last event is out
  GenerationEnd end;
  Clock::time_point submitted = Clock::now(), admitted = {}, first_token = {}, last_token = {};
  std::atomic<int64_t> in_context = 0, given_out = 0;  // for those who look from outside
};

}  // namespace smelt
