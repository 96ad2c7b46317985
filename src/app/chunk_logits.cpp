#include "app/chunk_logits.h"

#include <algorithm>
#include <string>
#include <vector>

namespace smelt {
namespace {

// Sequences of an engine, the first one of a session, which keeps it.
class SequencesBeside {
 public:
  explicit SequencesBeside(Session& session) : engine_(session.engine()), ids_{session.sequence()} {}
  SequencesBeside(const SequencesBeside&) = delete;
  SequencesBeside& operator=(const SequencesBeside&) = delete;
  ~SequencesBeside() {
    for (size_t i = 1; i < ids_.size(); ++i) engine_.stop(ids_[i]);
  }

  Status start(int64_t count) {
    while (std::ssize(ids_) < count) {
      SMELT_TRY(started, engine_.start());
      ids_.push_back(started.id);
    }
    return {};
  }
  SequenceId operator[](int64_t i) const { return ids_[static_cast<size_t>(i)]; }

 private:
  Engine& engine_;
  std::vector<SequenceId> ids_;
};

}  // namespace

Status read_chunks(Session& session, const ChunkRange& range, const ChunkSink& sink, const std::atomic<bool>* cancel) {
  for (int64_t number = range.first; number < range.first + range.count; ++number) {
    session.reset();
    SMELT_CHECK(session.append_all(
        range.chunk(number), [&](int64_t index, std::span<const float> logits) { sink(number, index, logits); },
        cancel));
  }
  return {};
}

Status decode_chunks(Session& session, const ChunkRange& range, const ChunkSink& sink,
                     const std::atomic<bool>* cancel) {
  session.reset();
  SequencesBeside sequences(session);
  SMELT_CHECK(sequences.start(range.count));
  std::vector<StepItem> items(static_cast<size_t>(range.count));
  for (int64_t at = 0; at < range.length; ++at) {
    for (int64_t i = 0; i < range.count; ++i)
      items[static_cast<size_t>(i)] = {.sequence = sequences[i],
                                       .tokens = range.chunk(range.first + i).subspan(static_cast<size_t>(at), 1),
                                       .is_generated = true,
                                       .cancel = cancel};
    SMELT_TRY(outcomes, session.engine().step(items, [&](size_t item, int64_t, std::span<const float> logits) {
      sink(range.first + static_cast<int64_t>(item), at, logits);
    }));
    const auto is_done = [](StepOutcome outcome) { return outcome == StepOutcome::Done; };
    if (!std::all_of(outcomes.begin(), outcomes.end(), is_done))
      return Error{"[perplexity] --parallel: a step of " + std::to_string(range.count) +
                   " chunks was ended, or the cache has no room for them; take fewer"};
  }
  return {};
}

}  // namespace smelt
