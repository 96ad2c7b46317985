#include "app/session_tokens.h"

#include <vector>

#include "app/interrupt.h"

namespace smelt {

Status append(Session& session, std::span<const int32_t> tokens) {
  SMELT_TRY(logits, session.append(tokens, &interrupted()));
  (void)logits;
  return {};
}

namespace {

// As many tokens of each sequence.
Status step(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens,
            bool are_generated) {
  const size_t count = tokens.size() / sequences.size();
  std::vector<StepItem> items;
  for (size_t i = 0; i < sequences.size(); ++i)
    items.push_back({.sequence = sequences[i],
                     .tokens = tokens.subspan(i * count, count),
                     .is_generated = are_generated,
                     .logits = are_generated ? WantedLogits::Last : WantedLogits::None,
                     .cancel = &interrupted()});
  SMELT_TRY(outcomes, engine.step(items, [](size_t, int64_t, std::span<const float>) {}));
  if (interrupted()) return Error{"[session] interrupted"};
  for (StepOutcome outcome : outcomes)
    if (outcome != StepOutcome::Done) return Error{"[session] the cache has no room for all sequences"};
  return {};
}

Status begin(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens) {
  std::vector<Engine::ChainItem> items;
  for (size_t i = 0; i < sequences.size(); ++i) items.push_back({.sequence = sequences[i], .token = tokens[i]});
  SMELT_TRY(has_begun, engine.begin(items));
  return has_begun ? Status() : Error{"[session] the cache has no room for all sequences"};
}

// One step is begun while another one is under way.
Status extend_chained(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens) {
  for (size_t at = 0; at < tokens.size() && !interrupted(); at += sequences.size()) {
    if (engine.begun() == Engine::kMostBegun) SMELT_CHECK(engine.take());
    SMELT_CHECK(begin(engine, sequences, tokens.subspan(at, sequences.size())));
  }
  while (engine.begun() > 0) SMELT_CHECK(engine.take());
  return interrupted() ? Status(Error{"[session] interrupted"}) : Status();
}

}  // namespace

Status append(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens) {
  return step(engine, sequences, tokens, false);
}

Status extend_once(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens) {
  return step(engine, sequences, tokens, true);
}

Status extend(Engine& engine, std::span<const SequenceId> sequences, std::span<const int32_t> tokens) {
  if (engine.chooses_tokens() && std::ssize(sequences) <= engine.loaded().layout().batch) {
    const Status done = extend_chained(engine, sequences, tokens);
    if (done) return done;
    for (SequenceId sequence : sequences) engine.drop(sequence);
    SMELT_CHECK(engine.settle());
    return done;
  }
  for (size_t at = 0; at < tokens.size(); at += sequences.size())
    SMELT_CHECK(extend_once(engine, sequences, tokens.subspan(at, sequences.size())));
  return {};
}

}  // namespace smelt
