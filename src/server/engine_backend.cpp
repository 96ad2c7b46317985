#include "server/engine_backend.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/thread_name.h"
#include "server/backend_job.h"
#include "server/prompt_shares.h"

namespace smelt {
namespace {

using Clock = EngineBackend::Clock;

constexpr int64_t kMostRepeated = 64;  // generated tokens that a request which gave way computes again in one step

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

PromptPaceOptions pace_of(PromptPaceOptions pace, const EngineLayout& layout) {
  pace.most = std::max(pace.usual, layout.prefill_tokens);
  pace.tile = layout.token_tile;
  return pace;
}

double share_in_use(const PagePool& pool) {
  return 1 - static_cast<double>(pool.available()) / static_cast<double>(pool.pages());
}

int64_t pages_for(int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

}  // namespace

EngineBackend::EngineBackend(Engine& engine, const Tokenizer& tokenizer, const BackendOptions& options,
                             std::unique_ptr<BatchSpeculation> speculation)
    : engine_(engine),
      tokenizer_(tokenizer),
      options_(options),
      speculation_(std::move(speculation)),
      alone_(pace_of(options.prompts_alone, engine.loaded().layout())),
      beside_(pace_of(options.prompts_beside, engine.loaded().layout())),
      worker_([this] { work(); }) {}

EngineBackend::~EngineBackend() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    for (const JobPointer& job : running_) job->cancel = true;
  }
  changed_.notify_all();
  worker_.join();
}

// --- from outside

Result<Backend::Id> EngineBackend::submit(GenerationRequest request, Sink sink) {
  auto job = std::make_shared<Job>(std::move(request), tokenizer_, engine_.context(), std::move(sink));
  SMELT_CHECK(check_model());
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return Error{failure_};
  if (waiting_.size() >= options_.longest_queue)
    return Error{"[serve] " + std::to_string(waiting_.size()) + " requests wait already; try again later"};
  job->id = ++last_id_;
  waiting_.push_back(job);
  changed_.notify_all();
  return job->id;
}

void EngineBackend::cancel(Id id) {
  JobPointer dropped;
  {
    std::lock_guard lock(mutex_);
    const auto has_id = [&](const JobPointer& job) { return job->id == id; };
    if (const auto at = std::find_if(running_.begin(), running_.end(), has_id); at != running_.end())
      (*at)->cancel = true;
    if (const auto at = std::find_if(waiting_.begin(), waiting_.end(), has_id); at != waiting_.end()) {
      dropped = *at;
      waiting_.erase(at);
    }
  }
  if (dropped) dropped->sink(dropped->last_event(Finish::Cancelled));
}

BackendLoad EngineBackend::load() const {
  std::string problem = options_.problem();
  std::lock_guard lock(mutex_);
  return {.running = static_cast<int>(running_.size()),
          .waiting = static_cast<int>(waiting_.size()),
          .is_full = waiting_.size() >= options_.longest_queue,
          .bandwidth = options_.bandwidth,
          .cache_use = cache_use_,
          .failure = failure_.empty() ? std::move(problem) : failure_};
}

Status EngineBackend::check_model() const {
  std::string problem = options_.problem();
  return problem.empty() ? Status() : Error{std::move(problem)};
}

BackendCounts EngineBackend::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<BackendSlot> EngineBackend::slots() const {
  std::lock_guard lock(mutex_);
  std::vector<BackendSlot> slots;
  for (const JobPointer& job : running_)
    slots.push_back({.request = job->id,
                     .prompt_tokens = job->end.prompt_tokens,
                     .cached_tokens = job->end.cached_tokens,
                     .context_tokens = job->in_context,
                     .tokens = job->given_out});
  return slots;
}

// --- on the thread that steps

void EngineBackend::work() {
  name_thread("smelt-steps");
  Status status;
  while (status && wait_for_work()) {
    drop_cancelled();
    status = check_model();
    if (status) status = admit();
    if (status) status = step();
  }
  if (status) return end_all(Finish::Cancelled, "");
  {
    std::lock_guard lock(mutex_);
    failure_ = status.error().message;
  }
  end_all(Finish::Failed, status.error().message);
}

bool EngineBackend::wait_for_work() {
  std::unique_lock lock(mutex_);
  cache_use_ = share_in_use(engine_.pool());
  changed_.wait(lock, [&] { return is_over_ || !running_.empty() || !waiting_.empty(); });
  return !is_over_;
}

void EngineBackend::drop_cancelled() {
  const auto is_cancelled = [](const JobPointer& job) { return job->cancel.load(); };
  while (std::any_of(running_.begin(), running_.end(), is_cancelled)) {
    const JobPointer job = *std::find_if(running_.begin(), running_.end(), is_cancelled);
    retire(job);
    job->sink(job->last_event(Finish::Cancelled));
  }
}

Status EngineBackend::admit() {
  while (const JobPointer job = next_admitted()) SMELT_CHECK(start(*job));
  return {};
}

EngineBackend::JobPointer EngineBackend::next_admitted() {
  std::lock_guard lock(mutex_);
  if (waiting_.empty() || engine_.free_sequences() == 0 || !has_room(*waiting_.front())) return nullptr;
  JobPointer job = waiting_.front();
  waiting_.pop_front();
  running_.push_back(job);
  if (!job->has_started) {
    job->admitted = Clock::now();
    counts_.queued.add(seconds_between(job->submitted, job->admitted));
  }
  return job;
}

// One request alone always has room. Beside others it needs what is left when all prompts have been read.
bool EngineBackend::has_room(const Job& job) const {
  int64_t left = engine_.pool().available();
  for (const JobPointer& other : running_)
    left -= pages_for(static_cast<int64_t>(other->tokens.size()) + 1) - pages_for(engine_.position(other->sequence));
  return running_.empty() || pages_for(static_cast<int64_t>(job.tokens.size()) + 1) <= left;
}

// One that gave way gets the rows that are certain to be of the kinds that it had.
Status EngineBackend::start(Job& job) {
  const bool is_new = !std::exchange(job.has_started, true);
  const PrefixReuse reuse{.generated = is_new && !options_.cold_prefix, .owner = job.generation.request().cache_owner};
  SMELT_TRY(started, engine_.start(job.prompt_tokens(), reuse));
  job.sequence = started.id;
  const auto known = engine_.tokens(started.id);
  std::copy(known.begin(), known.end(), job.tokens.begin());
  job.in_context = started.found;
  if (!is_new) return {};
  std::lock_guard lock(mutex_);
  job.end.cached_tokens = started.found;
  counts_.prompt_tokens += static_cast<uint64_t>(job.end.prompt_tokens);
  counts_.cached_tokens += static_cast<uint64_t>(started.found);
  return {};
}

Status EngineBackend::step() {
  if (running_.empty()) return forget_chained();
  if (can_chain()) SMELT_CHECK(begin_chained());
  if (engine_.begun() > 0) return take_chained();
  Step step;
  const auto begin = options_.now();
  add_items(step);
  if (step.items.empty()) return {};
  if (speculation_) SMELT_CHECK(add_drafts(step));
  Status sound;
  SMELT_TRY(outcomes, engine_.step(step.items, [&](size_t item, int64_t, std::span<const float> logits) {
    if (sound) sound = check_model();
    if (sound) take(*step.owners[item], logits);
  }));
  SMELT_CHECK(sound);
  take_outcomes(step, outcomes);
  count(step, seconds_between(begin, options_.now()));
  return {};
}

int64_t EngineBackend::Step::tokens_of(bool are_generated) const {
  int64_t tokens = 0;
  for (const StepItem& item : items)
    if (item.is_generated == are_generated) tokens += std::ssize(item.tokens);
  return tokens;
}

void EngineBackend::count(const Step& step, double seconds) {
  if (step.asked) speculation_->record(std::ssize(step.items), *step.asked, step.tokens, seconds);
  const int64_t prompts = step.tokens_of(false), generated = step.tokens_of(true);
  if (step.is_whole) (generated > 0 ? beside_ : alone_).record(prompts, seconds);
  std::lock_guard lock(mutex_);
  ++counts_.steps;
  if (prompts == 0) {
    counts_.generating_seconds += seconds;
    counts_.generating_bytes += engine_.loaded().bytes_read(generated);
  }
}

void EngineBackend::add_items(Step& step) const {
  std::vector<JobPointer> readers;
  std::vector<int64_t> rests;
  for (const JobPointer& job : running_) {
    const int64_t position = engine_.position(job->sequence), rest = job->same_kind(position);
    if (job->tokens[static_cast<size_t>(position)].is_generated) {
      add_item(job, std::min(rest, kMostRepeated), step);
    } else {
      readers.push_back(job);
      rests.push_back(rest);
    }
  }
  const auto shares = prompt_shares(rests, (step.items.empty() ? alone_ : beside_).tokens());
  for (size_t reader : prompt_order(rests))
    if (shares[reader] > 0) add_item(readers[reader], shares[reader], step);
}

// Beside prompts there are none: such a step is long already.
Status EngineBackend::add_drafts(Step& step) {
  for (const StepItem& item : step.items)
    if (!item.is_generated || item.tokens.size() != 1) return {};
  step.asked = speculation_->next(std::ssize(step.items));
  if (!has_room_for_drafts(step, *step.asked)) step.asked.reset();
  for (size_t i = 0; step.asked && i < step.items.size(); ++i) {
    Job& job = *step.owners[i];
    const int64_t room = std::min(job.generation.room(), engine_.context() - job.begin) - 1;
    std::vector<int32_t> text;
    for (const CachedToken& token : job.tokens) text.push_back(token.id);
    SMELT_TRY(drafts, speculation_->draft(job.sequence, text, std::min(room, *step.asked)));
    job.drafts = std::move(drafts);
    job.end.drafted += std::ssize(job.drafts);
    for (const DraftToken& draft : job.drafts) job.part.push_back(draft.id);
    step.items[i].tokens = job.part;
    step.items[i].logits = WantedLogits::All;
    job.verification.emplace(job.drafts);
  }
  return {};
}

// Nobody gives way for what may be wrong.
bool EngineBackend::has_room_for_drafts(const Step& step, int64_t drafts) const {
  int64_t left = engine_.pool().available();
  for (const JobPointer& job : step.owners) left -= pages_for(job->begin + 1 + drafts) - pages_for(job->begin);
  return left >= 0;
}

// The next `tokens` of those that the sequence has not yet, all of one kind.
void EngineBackend::add_item(const JobPointer& job, int64_t tokens, Step& step) const {
  job->begin = engine_.position(job->sequence);
  const auto first = job->tokens.begin() + job->begin, end = first + tokens;
  job->part.clear();
  job->drafts.clear();
  job->verification.emplace(job->drafts);
  for (auto token = first; token != end; ++token) job->part.push_back(token->id);
  step.items.push_back({.sequence = job->sequence,
                        .tokens = job->part,
                        .is_generated = first->is_generated,
                        .logits = end == job->tokens.end() ? WantedLogits::Last : WantedLogits::None,
                        .cancel = &job->cancel});
  step.owners.push_back(job);
}

void EngineBackend::take(Job& job, std::span<const float> logits) {
  if (!job.verification->is_open()) return;
  Generation::Next next = job.generation.next(logits);
  job.judge(next);
  give(job, std::move(next));
}

void EngineBackend::give(Job& job, Generation::Next next) {
  const auto now = Clock::now();
  GenerationEvent event;
  std::unique_lock lock(mutex_);
  if (next.token) {
    event.tokens = {*next.token};
    if (next.logprobs) event.logprobs.push_back(std::move(*next.logprobs));
    job.tokens.push_back({*next.token, true});
    job.given_out = job.generation.tokens();
    ++counts_.tokens;
    if (job.given_out == 1) {
      job.first_token = now;
      counts_.first_token.add(seconds_between(job.submitted, now));
    } else {
      counts_.between_tokens.add(seconds_between(job.last_token, now));
    }
    job.last_token = now;
  }
  if (next.finish) {
    job.is_over = true;
    job.end.prompt_seconds = seconds_between(job.admitted, job.given_out ? job.first_token : now);
    job.end.decode_seconds = job.given_out ? seconds_between(job.first_token, now) : 0;
    counts_.prompt_seconds += job.end.prompt_seconds;
    counts_.decode_seconds += job.end.decode_seconds;
    counts_.whole.add(seconds_between(job.submitted, now));
    event.end = job.last_event(*next.finish, next.error).end;
  }
  lock.unlock();
  job.sink(std::move(event));
}

void EngineBackend::take_outcomes(Step& step, std::span<const StepOutcome> outcomes) {
  const size_t had = running_.size();
  bool is_full = false;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const JobPointer& job = step.owners[i];
    if (outcomes[i] == StepOutcome::Done) step.tokens += job->verification->kept();
    if (!job->drafts.empty()) take_back(*job);
    job->in_context = engine_.position(job->sequence);
    is_full |= outcomes[i] == StepOutcome::NoRoom;
    step.is_whole &= outcomes[i] == StepOutcome::Done;
    if (job->is_over) retire(job);
  }
  drop_cancelled();
  if (is_full && running_.size() == had) give_way();  // else there is the room of those who have ended
}

// The sequence is then the one that steps without drafts would have left.
void EngineBackend::take_back(Job& job) {
  engine_.rewind(job.sequence, std::min(engine_.position(job.sequence), job.begin + job.verification->kept()));
  std::lock_guard lock(mutex_);
  ++counts_.drafts;
  counts_.drafted += job.drafts.size();
  counts_.accepted += static_cast<uint64_t>(job.verification->accepted());
}

// The last to come waits again, so that the first one always goes on.
void EngineBackend::give_way() {
  const JobPointer job = running_.back();
  retire(job);
  if (running_.empty()) return job->sink(job->last_event(Finish::Failed, "the cache has no room for this request"));
  std::lock_guard lock(mutex_);
  waiting_.push_front(job);
  ++counts_.preemptions;
}

void EngineBackend::retire(const JobPointer& job) {
  if (const SequenceId sequence = std::exchange(job->sequence, kNoSequence); sequence != kNoSequence)
    engine_.stop(sequence);
  std::lock_guard lock(mutex_);
  cache_use_ = share_in_use(engine_.pool());
  std::erase(running_, job);
}

void EngineBackend::end_all(Finish reason, const std::string& error) {
  const std::vector<JobPointer> running = running_;
  for (const JobPointer& job : running) {
    retire(job);
    if (!job->is_over) job->sink(job->last_event(reason, error));
  }
  (void)forget_chained();
  std::deque<JobPointer> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const JobPointer& job : waiting) job->sink(job->last_event(reason, error));
}

}  // namespace smelt
