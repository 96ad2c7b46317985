#include "app/generate.h"

#include "app/stopwatch.h"

namespace smelt {
namespace {

Generation ended(Generation generation, StopReason reason) {
  generation.stopped = reason;
  return generation;
}

}  // namespace

Result<Generation> generate(Session& session, const Tokenizer& tokenizer, Sampler& sampler,
                            std::span<const int32_t> prompt, const GenerateOptions& options,
                            const std::function<void(int32_t)>& emit,
                            const std::atomic<bool>& cancel) {
  Generation generation;
  Stopwatch watch;
  auto logits = session.append(prompt, &cancel);
  if (cancel) return ended(generation, StopReason::interrupted);
  if (!logits) return logits.error();
  generation.prompt_tokens = static_cast<int64_t>(prompt.size());
  generation.prompt_seconds = watch.lap();

  while (generation.tokens != options.max_tokens) {
    SMELT_TRY(token, sampler.sample(*logits));
    sampler.accept(token);
    if (!options.ignore_stop && tokenizer.is_stop(token))
      return ended(generation, StopReason::stop_token);
    emit(token);
    ++generation.tokens;
    if (generation.tokens == options.max_tokens) break;  // nobody would look at the next logits
    if (session.position() == session.context()) return ended(generation, StopReason::context_full);
    logits = session.append({&token, 1}, &cancel);
    if (cancel) return ended(generation, StopReason::interrupted);
    if (!logits) return logits.error();
    ++generation.decode_steps;
    generation.decode_seconds += watch.lap();
  }
  return generation;
}

}  // namespace smelt
