#include "app/generate.h"

#include <algorithm>

#include "app/stopwatch.h"

namespace smelt {
namespace {

Generation ended(Generation generation, StopReason reason) {
  generation.stopped = reason;
  return generation;
}

// The tokens that may come next.
TokenMask allowed_by(Constraint& constraint, const Tokenizer& tokenizer) {
  TokenMask allowed = constraint.mask();
  if (constraint.can_end())
    for (int32_t token : tokenizer.stop_tokens()) allowed.set(token);
  return allowed;
}

Result<int32_t> choose(Sampler& sampler, std::span<const float> logits, Constraint* constraint,
                       const Tokenizer& tokenizer) {
  if (!constraint) return sampler.sample(logits);
  return sampler.sample(logits, allowed_by(*constraint, tokenizer).words());
}

bool stops(const GenerateOptions& options, const Tokenizer& tokenizer, int32_t token) {
  if (!options.stops) return tokenizer.is_stop(token);
  return std::binary_search(options.stops->begin(), options.stops->end(), token);
}

}  // namespace

Result<Generation> generate(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const int32_t> prompt, const GenerateOptions& options,
                            const std::function<bool(int32_t)>& emit, const std::atomic<bool>& cancel) {
  Generation generation;
  Stopwatch watch;
  auto logits = session.append(prompt, &cancel);
  if (cancel) return ended(generation, StopReason::interrupted);
  if (!logits) return logits.error();
  generation.prompt_tokens = static_cast<int64_t>(prompt.size());
  generation.prompt_seconds = watch.lap();

  while (generation.tokens != options.max_tokens) {
    if (options.constraint && options.constraint->is_finished()) return ended(generation, StopReason::complete);
    SMELT_TRY(token, choose(sampler, *logits, options.constraint, tokenizer));
    sampler.accept(token);
    if (!options.ignore_stop && stops(options, tokenizer, token)) return ended(generation, StopReason::stop_token);
    if (options.constraint) SMELT_CHECK(options.constraint->accept(token));
    ++generation.tokens;
    if (!emit(token)) return ended(generation, StopReason::unwanted);
    if (generation.tokens == options.max_tokens) break;  // nobody would look at the next logits
    if (session.position() == session.context()) return ended(generation, StopReason::context_full);
    logits = session.extend(token, &cancel);
    if (cancel) return ended(generation, StopReason::interrupted);
    if (!logits) return logits.error();
    ++generation.decode_steps;
    generation.decode_seconds += watch.lap();
  }
  return generation;
}

}  // namespace smelt
