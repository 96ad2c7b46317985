#include "server/session_backend.h"

#include <algorithm>
#include <chrono>

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The constraint of a request, which may begin to hold only behind some text.
class LaterConstraint {
 public:
  LaterConstraint(const GenerationRequest& request, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), stops_(request.stops), begins_after_(request.grammar_after) {
    if (request.grammar) constraint_.emplace(request.grammar);
  }

  bool is_finished() { return holds() && constraint_->is_finished(); }

  Result<int32_t> choose(Sampler& sampler, std::span<const float> logits) {
    if (!holds()) return sampler.sample(logits);
    TokenMask allowed = constraint_->mask();
    if (constraint_->can_end())
      for (int32_t token : stops_) allowed.set(token);
    return sampler.sample(logits, allowed.words());
  }

  Status accept(int32_t token) {
    if (!constraint_) return {};
    if (holds()) return constraint_->accept(token);
    const std::string_view piece = tokenizer_.piece(token);
    before_ += piece;
    const size_t at = before_.find(begins_after_);
    if (at == std::string::npos) {
      const size_t keep = std::min(before_.size(), begins_after_.size() - 1);
      before_.erase(0, before_.size() - keep);
      return {};
    }
    const std::string rest = before_.substr(at + begins_after_.size());
    begins_after_.clear();
    return constraint_->accept(std::string_view(rest));
  }

 private:
  bool holds() const { return constraint_ && begins_after_.empty(); }

  const Tokenizer& tokenizer_;
  const std::vector<int32_t>& stops_;
  std::string begins_after_, before_;
  std::optional<Constraint> constraint_;
};

}  // namespace

struct SessionBackend::Job {
  Id id;
  GenerationRequest request;
  Sink sink;
  std::atomic<bool> cancel = false;
};

SessionBackend::SessionBackend(Session& session, const Tokenizer& tokenizer, size_t longest_queue)
    : session_(session), tokenizer_(tokenizer), longest_queue_(longest_queue), worker_([this] { work(); }) {}

SessionBackend::~SessionBackend() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    for (const auto& job : waiting_) job->cancel = true;
    if (running_) running_->cancel = true;
  }
  changed_.notify_all();
  worker_.join();
}

Result<Backend::Id> SessionBackend::submit(GenerationRequest request, Sink sink) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= longest_queue_)
    return Error{"[serve] " + std::to_string(waiting_.size()) + " requests wait already; try again later"};
  auto job = std::make_shared<Job>();
  job->id = ++last_id_;
  job->request = std::move(request);
  job->sink = std::move(sink);
  waiting_.push_back(job);
  changed_.notify_all();
  return job->id;
}

void SessionBackend::cancel(Id id) {
  std::shared_ptr<Job> dropped;
  {
    std::lock_guard lock(mutex_);
    if (running_ && running_->id == id) running_->cancel = true;
    const auto at = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& job) { return job->id == id; });
    if (at != waiting_.end()) {
      dropped = *at;
      waiting_.erase(at);
    }
  }
  if (dropped)
    dropped->sink({.end = GenerationEnd{.reason = Finish::Cancelled,
                                        .prompt_tokens = static_cast<int64_t>(dropped->request.prompt.size())}});
}

BackendLoad SessionBackend::load() const {
  std::lock_guard lock(mutex_);
  return {running_ ? 1 : 0, static_cast<int>(waiting_.size())};
}

std::shared_ptr<SessionBackend::Job> SessionBackend::next_job() {
  std::unique_lock lock(mutex_);
  running_ = nullptr;
  changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
  if (waiting_.empty()) return nullptr;
  running_ = waiting_.front();
  waiting_.pop_front();
  return running_;
}

void SessionBackend::work() {
  while (const auto job = next_job()) job->sink({.end = run(*job)});
}

// How many tokens of the context the prompt begins with. The last one is computed again, as its logits are wanted.
size_t SessionBackend::keep_common(const std::vector<int32_t>& prompt) {
  const size_t most = std::min(prompt.size() - 1, in_context_.size());
  const auto end =
      std::mismatch(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(most), in_context_.begin()).first;
  const auto common = static_cast<size_t>(end - prompt.begin());
  session_.rewind(static_cast<int64_t>(common));
  in_context_.resize(common);
  return common;
}

GenerationEnd SessionBackend::run(Job& job) {
  const GenerationRequest& request = job.request;
  GenerationEnd end{.prompt_tokens = static_cast<int64_t>(request.prompt.size())};
  const auto ends = [&](Finish reason, const std::string& error = {}) {
    // Tokens that were appended in part, or not at all, are not in the context.
    in_context_.resize(std::min(in_context_.size(), static_cast<size_t>(session_.position())));
    end.reason = reason;
    end.error = error;
    return end;
  };
  if (job.cancel) return ends(Finish::Cancelled);

  auto start = Clock::now();
  const size_t common = keep_common(request.prompt);
  end.cached_tokens = static_cast<int64_t>(common);
  in_context_ = request.prompt;
  auto logits = session_.append(std::span(request.prompt).subspan(common), &job.cancel);
  end.prompt_seconds = seconds_since(start);
  if (job.cancel) return ends(Finish::Cancelled);
  if (!logits) return ends(Finish::Failed, logits.error().message);

  Sampler sampler(request.sampler);
  for (int32_t token : request.prompt) sampler.accept(token);
  LaterConstraint constraint(request, tokenizer_);
  start = Clock::now();
  while (end.tokens != request.max_tokens) {
    end.decode_seconds = seconds_since(start);
    if (constraint.is_finished()) return ends(Finish::Stop);
    const auto token = constraint.choose(sampler, *logits);
    if (!token) return ends(Finish::Failed, token.error().message);
    sampler.accept(*token);
    if (std::binary_search(request.stops.begin(), request.stops.end(), *token)) return ends(Finish::Stop);
    if (const Status fits = constraint.accept(*token); !fits) return ends(Finish::Failed, fits.error().message);
    ++end.tokens;
    GenerationEvent event{.tokens = {*token}};
    if (request.top_logprobs >= 0) event.logprobs = {logprobs_of(*logits, *token, request.top_logprobs)};
    job.sink(std::move(event));
    if (end.tokens == request.max_tokens) break;  // nobody would look at the next logits
    if (session_.position() == session_.context()) return ends(Finish::Length);
    in_context_.push_back(*token);
    logits = session_.extend(*token, &job.cancel);
    if (job.cancel) return ends(Finish::Cancelled);
    if (!logits) return ends(Finish::Failed, logits.error().message);
  }
  return ends(Finish::Length);
}

}  // namespace smelt
