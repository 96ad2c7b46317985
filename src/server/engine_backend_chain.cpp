// EngineBackend: steps whose tokens are chosen on the device, begun before the last ones are known.
#include <algorithm>
#include <utility>

#include "server/backend_job.h"

namespace smelt {

// All that run have one token that is not computed, or none is known yet, and nobody waits who could be taken in.
bool EngineBackend::can_chain() const {
  if (!engine_.chooses_tokens() || speculation_ || running_.empty() ||
      std::ssize(running_) > engine_.loaded().layout().batch)
    return false;
  {
    std::lock_guard lock(mutex_);
    if (!waiting_.empty() && engine_.free_sequences() > 0) return false;
  }
  return std::all_of(running_.begin(), running_.end(), [&](const JobPointer& job) {
    return job->tokens.back().is_generated && engine_.position(job->sequence) + 1 == std::ssize(job->tokens) &&
           job->generation.choice(engine_.vocabulary_size(), 0);
  });
}

int64_t EngineBackend::ahead_of(const JobPointer& job) const {
  return std::count_if(chained_.begin(), chained_.end(), [&](const std::vector<JobPointer>& owners) {
    return std::find(owners.begin(), owners.end(), job) != owners.end();
  });
}

// Whether a further token of it may be wanted, as far as that is known.
bool EngineBackend::goes_on(const JobPointer& job) const {
  const int64_t ahead = ahead_of(job);
  return !job->cancel && ahead < job->generation.room() && engine_.position(job->sequence) + ahead < engine_.context();
}

Status EngineBackend::begin_chained() {
  if (engine_.begun() == 0) last_taken_ = Clock::now();
  while (engine_.begun() < Engine::kMostBegun) {
    std::vector<Engine::ChainItem> items;
    std::vector<JobPointer> owners;
    for (const JobPointer& job : running_) {
      if (!goes_on(job)) continue;
      const int64_t ahead = ahead_of(job);
      items.push_back({.sequence = job->sequence, .choice = *job->generation.choice(engine_.vocabulary_size(), ahead)});
      if (ahead == 0) items.back().token = job->tokens.back().id;
      owners.push_back(job);
    }
    if (items.empty()) return {};
    SMELT_TRY(has_begun, engine_.begin(items));
    if (!has_begun) return {};  // no room: once nothing is under way somebody gives way
    chained_.push_back(std::move(owners));
  }
  return {};
}

Status EngineBackend::take_chained() {
  SMELT_TRY(chosen, engine_.take());
  SMELT_CHECK(check_model());
  const std::vector<JobPointer> owners = std::move(chained_.front());
  chained_.pop_front();
  int64_t tokens = 0;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (!chosen[i]) continue;  // it has ended
    const JobPointer& job = owners[i];
    const Result<int32_t>& token = *chosen[i];
    give(*job, token ? job->generation.next_chosen(*token)
                     : Generation::Next{.finish = Finish::Failed, .error = token.error().message});
    job->in_context = engine_.position(job->sequence);
    ++tokens;
    if (job->is_over) retire(job);
  }
  if (running_.empty()) SMELT_CHECK(forget_chained());
  const double seconds = std::chrono::duration<double>(Clock::now() - std::exchange(last_taken_, Clock::now())).count();
  std::lock_guard lock(mutex_);
  ++counts_.steps;
  counts_.generating_seconds += seconds;
  if (tokens > 0) counts_.generating_bytes += engine_.loaded().bytes_read(tokens);
  return {};
}

// Nobody runs any more.
Status EngineBackend::forget_chained() {
  chained_.clear();
  return engine_.settle();
}

}  // namespace smelt
