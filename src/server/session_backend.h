// SessionBackend: a Backend over one Session, so over one sequence at a time. Requests wait in a queue; the tokens that
// a prompt has in common with what is in the context are not computed again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/session.h"
#include "server/backend.h"
#include "text/tokenizer.h"

namespace smelt {

class SessionBackend : public Backend {
 public:
  // REQUIRES: `session` and `tokenizer` outlive this.
  SessionBackend(Session& session, const Tokenizer& tokenizer, size_t longest_queue = 256);
  ~SessionBackend() override;  // what runs or waits is cancelled

  Result<Id> submit(GenerationRequest request, Sink sink) override;
  void cancel(Id id) override;
  BackendLoad load() const override;

 private:
  struct Job;

  void work();
  std::shared_ptr<Job> next_job();
  GenerationEnd run(Job& job);
  size_t keep_common(const std::vector<int32_t>& prompt);

  Session& session_;
  const Tokenizer& tokenizer_;
  const size_t longest_queue_;
  std::vector<int32_t> in_context_;  // of the worker

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::shared_ptr<Job> running_;
  Id last_id_ = 0;
  bool is_over_ = false;

  std::thread worker_;
};

}  // namespace smelt
