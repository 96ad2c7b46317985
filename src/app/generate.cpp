#include "app/generate.h"

#include <algorithm>

#include "app/stopwatch.h"

namespace smelt {
namespace {

Generation ended(Generation generation, StopReason reason) {
  generation.stopped = reason;
  return generation;
}

const std::vector<int32_t>& stops_of(const GenerateOptions& options, const Tokenizer& tokenizer) {
  return options.stops ? *options.stops : tokenizer.stop_tokens();
}

Result<int32_t> choose(Sampler& sampler, std::span<const float> logits, Constraint* constraint,
                       const std::vector<int32_t>& stops) {
  if (!constraint) return sampler.sample(logits);
  TokenMask allowed = constraint->mask();
  if (constraint->can_end())
    for (int32_t token : stops) allowed.set(token);
  return sampler.sample(logits, allowed.words());
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

  const std::vector<int32_t>& stops = stops_of(options, tokenizer);
  const auto is_stop = [&](int32_t token) { return std::binary_search(stops.begin(), stops.end(), token); };
  while (generation.tokens != options.max_tokens) {
    if (options.constraint && options.constraint->is_finished()) return ended(generation, StopReason::complete);
    SMELT_TRY(token, choose(sampler, *logits, options.constraint, stops));
    sampler.accept(token);
    if (!options.ignore_stop && is_stop(token)) return ended(generation, StopReason::stop_token);
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
