#include "server/preparation.h"

#include <utility>

#include "base/thread_name.h"

namespace smelt {

Preparation::Lane::Lane(size_t most_waiting) : most_waiting_(most_waiting), thread_([this] { run(); }) {}

Preparation::Lane::~Lane() {
  std::deque<Work> dropped;
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    dropped.swap(waiting_);
  }
  dropped.clear();
  changed_.notify_all();
  thread_.join();
}

bool Preparation::Lane::submit(Work work) {
  std::lock_guard lock(mutex_);
  if (waiting_.size() >= most_waiting_) return false;
  waiting_.push_back(std::move(work));
  changed_.notify_all();
  return true;
}

void Preparation::Lane::run() {
  name_thread("smelt-prepare");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_over_ || !waiting_.empty(); });
    if (is_over_) return;
    const Work work = std::exchange(waiting_.front(), nullptr);
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace smelt
