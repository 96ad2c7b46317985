// Session: one sequence of tokens over one model, with an engine of its own: a batch of one. Opening it compiles (or
// finds in the cache) the plans; appending tokens runs them. Several sessions may take turns on one engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace smelt {

class Session {
 public:
  using LogitsSink = std::function<void(int64_t index, std::span<const float> logits)>;

  // REQUIRES: `file` outlives the session.
  static Result<std::unique_ptr<Session>> open(const GgufFile& file, const EngineOptions& options,
                                               const OpenHooks& hooks);
  // Another one on the same engine, without tokens. An Error if EngineOptions::sequences are all there. REQUIRES: one
  // thread at a time uses all of them; there is room for the contexts of all.
  Result<std::unique_ptr<Session>> another() const;
  ~Session() { engine_->stop(sequence_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int64_t context() const { return engine_->context(); }
  int64_t position() const { return engine_->position(sequence_); }  // tokens in the context now
  int64_t vocabulary_size() const { return engine_->vocabulary_size(); }
  void reset() { rewind(0); }  // forgets the context
  // Forgets what came after, see Engine::rewind(). REQUIRES: position <= position().
  void rewind(int64_t position) { engine_->rewind(sequence_, position); }

  // Tokens come in two ways, which may differ in how sums are made, so that the caller says which: append() reads those
  // of a prompt, many at once, extend() a generated one. What is read in one way gives the same bits however it is
  // divided among calls and chunks.

  // Appends tokens to the context and returns the logits of the last one (valid until the next call). An Error if they
  // do not fit, if one is not in the vocabulary, or when `cancel` became true in between. REQUIRES: not empty.
  Result<std::span<const float>> append(std::span<const int32_t> tokens, const std::atomic<bool>* cancel = nullptr);

  Result<std::span<const float>> extend(int32_t token, const std::atomic<bool>* cancel = nullptr);

  // Like extend() for each of `tokens`, in one step where there are no more than `drafts` of the options and one, with
  // `sink` called for each in order: the logits have the same bits. To take some of them back, rewind().
  Status extend_all(std::span<const int32_t> tokens, const LogitsSink& sink, const std::atomic<bool>* cancel = nullptr);

  // Like append(), with `sink` called for every position of `tokens` in order.
  Status append_all(std::span<const int32_t> tokens, const LogitsSink& sink, const std::atomic<bool>* cancel = nullptr);

  std::span<const CachedToken> tokens() const { return engine_->tokens(sequence_); }  // in the context now
  // The context with its rows, to a file and from it (cache_file.h). REQUIRES: the context is empty before restore().
  Status save(const std::string& path);
  Status restore(const std::string& path);
  // See Engine::draft().
  Result<std::vector<int32_t>> draft(int32_t next, int64_t most, const Engine::ChooseDraft& choose,
                                     const std::atomic<bool>* cancel = nullptr) {
    return engine_->draft(sequence_, next, most, choose, cancel);
  }

  // Tokens that are chosen on the device, see Engine::begin(): `token` follows the context, or without one what the
  // step begun last chooses.
  Result<bool> begin(std::optional<int32_t> token, const TokenChoice& choice) {
    const Engine::ChainItem item{sequence_, token, choice};
    return engine_->begin({&item, 1});
  }
  // The token chosen by the step that was begun first. REQUIRES: one was begun.
  Result<int32_t> take();
  // Nobody wants what was begun and not taken; it is waited for.
  Status drop();

  EngineStats stats() const { return engine_->loaded().stats(); }

  // What this is a sequence of, and which one.
  Engine& engine() { return *engine_; }
  SequenceId sequence() const { return sequence_; }
  // The model under it: its plans and what they cost.
  LoadedModel& loaded() { return engine_->loaded(); }
  const LoadedModel& loaded() const { return engine_->loaded(); }

 private:
  Session(std::shared_ptr<Engine> engine, SequenceId sequence) : engine_(std::move(engine)), sequence_(sequence) {}
  Result<std::span<const float>> step(StepItem item, const LogitsSink& sink = {});

  std::shared_ptr<Engine> engine_;
  SequenceId sequence_;
};

}  // namespace smelt
