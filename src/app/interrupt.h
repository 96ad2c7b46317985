// Ctrl-C: the first asks the work to stop, so that what was done is still reported; the second ends
// the program at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "base/thread.h"

namespace smelt {

// Becomes true when the user presses Ctrl-C. The first call starts to listen.
const std::atomic<bool>& interrupted();

// Listens anew, for programs that go on after a Ctrl-C.
void forget_interrupt();

// The same, for those who only want to know how the program ends: does not start to listen.
bool was_interrupted();

// For work that does not look at interrupted() often enough, such as a compiler below us: while it lives, Ctrl-C ends
// the program within 0.2 s. If the work has not stopped by itself shortly before that, `last_words` is called from
// another thread, files that are being written are removed, and the program exits as interrupted.
class EndSoon {
 public:
  explicit EndSoon(std::function<void()> last_words);
  ~EndSoon();
  EndSoon(const EndSoon&) = delete;
  EndSoon& operator=(const EndSoon&) = delete;

 private:
  void watch();

  std::function<void()> last_words_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  Thread thread_;
};

}  // namespace smelt
