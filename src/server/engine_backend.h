// EngineBackend: a Backend over an Engine. One thread steps it with all requests that run: a token for each of those
// that generate, and beside them a part of the prompts that are being read: how much of them (prompt_pace.h), and of
// which (prompt_shares.h). Others wait in a queue, in the order in which they came.
//
// Where the cache is full, the request that came last gives its pages back and waits again. What it has computed is
// computed once more, in the same two ways (CachedToken), so that its text stays the same.
//
// Where the device chooses tokens (Engine::begin()), and all that run generate, and nothing but tokens is wanted of
// their logits, a step is begun before it is known what the one before has chosen. Who comes meanwhile waits for those
// that were begun. Texts stay the same.
//
// Where somebody drafts (batch_speculation.h), a step that only generates verifies drafts of its texts, too, if there
// is room for all of them. Texts stay the same.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/thread.h"
#include "engine/batch_speculation.h"
#include "engine/engine.h"
#include "server/backend.h"
#include "server/generation.h"
#include "server/prompt_pace.h"
#include "text/tokenizer.h"

namespace smelt {

struct BackendOptions {
  size_t longest_queue = 256;
  // Tokens of prompts in one step, as far as the chunk of the engine goes. While nobody generates, somebody may come
  // with a short prompt and wait for its end; a person sees half a second.
  PromptPaceOptions prompts_alone = {.seconds = 0.5, .usual = 512, .least = 128};
  // While others generate, who wait for it between two tokens: 30 of them a second are more than anybody reads.
  PromptPaceOptions prompts_beside = {.seconds = 1.0 / 30, .usual = 128, .least = 128};
  // Only rows that came as prompts serve later prompts: answers are then those of a server that has just started.
  bool cold_prefix = false;
  double bandwidth = 0;  // of the device, as it was measured: for load()
  // Why what the model computes is not to be trusted any more; empty: it is. Asked from any thread, and before a token
  // is given out.
  std::function<std::string()> problem = [] { return std::string(); };
  // What tells how long a step takes.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

class EngineBackend : public Backend {
 public:
  using Clock = std::chrono::steady_clock;

  // REQUIRES: `engine` and `tokenizer` outlive this, and nobody else uses the engine meanwhile.
  EngineBackend(Engine& engine, const Tokenizer& tokenizer, const BackendOptions& options = {},
                std::unique_ptr<BatchSpeculation> speculation = nullptr);
  ~EngineBackend() override;  // what runs or waits is cancelled

  Result<Id> submit(GenerationRequest request, Sink sink) override;
  void cancel(Id id) override;
  BackendLoad load() const override;
  BackendCounts counts() const override;
  std::vector<BackendSlot> slots() const override;

 private:
  struct Job;
  using JobPointer = std::shared_ptr<Job>;
  struct Step {
    std::vector<StepItem> items;
    std::vector<JobPointer> owners;  // of the items
    std::optional<int64_t> asked;    // drafts for each text; empty: nobody was asked for any
    int64_t tokens = 0;              // that it has given
    bool is_whole = true;            // all that it has was done

    int64_t tokens_of(bool are_generated) const;
  };

  // --- on the thread that steps
  void work();
  bool wait_for_work();
  void drop_cancelled();
  Status admit();
  JobPointer next_admitted();
  Status start(Job& job);
  bool has_room(const Job& job) const;
  Status step();
  void add_item(const JobPointer& job, int64_t tokens, Step& step) const;
  void add_items(Step& step) const;
  Status add_drafts(Step& step);
  bool has_room_for_drafts(const Step& step, int64_t drafts) const;
  void count(const Step& step, double seconds);
  void take(Job& job, std::span<const float> logits);
  void give(Job& job, Generation::Next next);
  void take_outcomes(Step& step, std::span<const StepOutcome> outcomes);
  void take_back(Job& job);
  void give_way();
  void retire(const JobPointer& job);
  // Steps whose tokens are chosen on the device (engine_backend_chain.cpp).
  bool can_chain() const;
  int64_t ahead_of(const JobPointer& job) const;
  bool goes_on(const JobPointer& job) const;
  Status begin_chained();
  Status take_chained();
  Status forget_chained();
  Status check_model() const;
  void end_all(Finish reason, const std::string& error);

  Engine& engine_;
  const Tokenizer& tokenizer_;
  const BackendOptions options_;
  const std::unique_ptr<BatchSpeculation> speculation_;  // nothing: nobody drafts
  PromptPace alone_, beside_;                            // of the thread that steps

  // Owners of the tokens of steps that were begun, and when the last one was taken.
  std::deque<std::vector<JobPointer>> chained_;
  Clock::time_point last_taken_ = {};

  mutable std::mutex mutex_;  // of what follows; running_ and its jobs are changed by the thread that steps alone
  std::condition_variable changed_;
  std::deque<JobPointer> waiting_;
  std::vector<JobPointer> running_;  // in the order in which they came
  BackendCounts counts_;
  double cache_use_ = 0;
  std::string failure_;
  Id last_id_ = 0;
  bool is_over_ = false;

  Thread worker_;
};

}  // namespace smelt
