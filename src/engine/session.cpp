#include "engine/session.h"

#include "base/ensure.h"
#include "engine/cache_file.h"

namespace smelt {

Result<std::unique_ptr<Session>> Session::open(const GgufFile& file, const EngineOptions& options,
                                               const OpenHooks& hooks) {
  SMELT_TRY(engine, Engine::open(file, options, hooks));
  SMELT_TRY(started, engine->start());
  return std::unique_ptr<Session>(new Session(std::move(engine), started.id));
}

Result<std::unique_ptr<Session>> Session::another() const {
  SMELT_TRY(started, engine_->start());
  return std::unique_ptr<Session>(new Session(engine_, started.id));
}

Result<std::span<const float>> Session::append(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
  return step({.tokens = tokens, .cancel = cancel});
}

Result<std::span<const float>> Session::extend(int32_t token, const std::atomic<bool>* cancel) {
  return step({.tokens = {&token, 1}, .is_generated = true, .cancel = cancel});
}

Status Session::append_all(std::span<const int32_t> tokens, const LogitsSink& sink, const std::atomic<bool>* cancel) {
  SMELT_TRY(logits, step({.tokens = tokens, .logits = WantedLogits::All, .cancel = cancel}, sink));
  (void)logits;
  return {};
}

Status Session::save(const std::string& path) { return write_cache_file(*engine_, sequence_, path); }

Status Session::restore(const std::string& path) { return read_cache_file(*engine_, sequence_, path); }

Status Session::extend_all(std::span<const int32_t> tokens, const LogitsSink& sink, const std::atomic<bool>* cancel) {
  SMELT_TRY(logits,
            step({.tokens = tokens, .is_generated = true, .logits = WantedLogits::All, .cancel = cancel}, sink));
  (void)logits;
  return {};
}

Result<int32_t> Session::take() {
  SMELT_TRY(chosen, engine_->take());
  ENSURE(chosen.size() == 1 && chosen[0], "a step of another session, or one that nobody wants");
  return *chosen[0];
}

Status Session::drop() {
  engine_->drop(sequence_);
  return engine_->settle();
}

Result<std::span<const float>> Session::step(StepItem item, const LogitsSink& sink) {
  item.sequence = sequence_;
  std::span<const float> last;
  const auto keep = [&](size_t, int64_t index, std::span<const float> logits) {
    last = logits;
    if (sink) sink(index, logits);
  };
  SMELT_TRY(outcomes, engine_->step({&item, 1}, keep));
  if (outcomes[0] == StepOutcome::Cancelled) return Error{"[session] interrupted"};
  ENSURE(outcomes[0] == StepOutcome::Done, "the cache has room for the context of each session");
  return last;
}

}  // namespace smelt
