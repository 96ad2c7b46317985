// Preparation: what has to be done with a request before its answer can begin: its JSON is read, its chat rendered, its
// grammar compiled, its text made into tokens. That can take seconds, so threads of its own do it, and the thread that
// talks to clients never waits for it.
//
// There are two: one for requests of up to kShortBytes, which no long one can hold up, and one for those beyond. Each
// takes its requests in the order in which they came.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "base/thread.h"

namespace smelt {

class Preparation {
 public:
  using Work = std::function<void()>;
  static constexpr size_t kShortBytes = 64 << 10;

  // `most_waiting`: of each thread.
  explicit Preparation(size_t most_waiting = 256) : short_(most_waiting), long_(most_waiting) {}

  // Does `work` for a request of so many bytes, soon. False: too many wait already, and it is not done. What still
  // waits when this is destroyed is not done either. Thread-safe.
  bool submit(size_t bytes, Work work) { return (bytes <= kShortBytes ? short_ : long_).submit(std::move(work)); }

 private:
  class Lane {
   public:
    explicit Lane(size_t most_waiting);
    ~Lane();
    bool submit(Work work);

   private:
    void run();

    const size_t most_waiting_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> waiting_;
    bool is_over_ = false;
    Thread thread_;
  };
  Lane short_, long_;
};

}  // namespace smelt
