// Thread: as std::thread, with a stack of known size. That of std::thread is what a limit (ulimit -s) or the system
// says, 512 KB on Apple's: too little for a kernel or for the compiler below us.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace smelt {

class Thread {
 public:
  static constexpr size_t kStackBytes = 8 << 20;

  Thread() = default;
  // Throws std::system_error where the system refuses a thread.
  explicit Thread(std::function<void()> life, size_t stack_bytes = kStackBytes);
  ~Thread();  // joins
  Thread(Thread&& other) noexcept { swap(other); }
  Thread& operator=(Thread&& other) noexcept {
    swap(other);
    return *this;
  }

  bool joinable() const { return life_ != nullptr; }
  void join();                                  // REQUIRES: joinable()
  pthread_t handle() const { return thread_; }  // REQUIRES: joinable()

 private:
  void swap(Thread& other) {
    std::swap(life_, other.life_);
    std::swap(thread_, other.thread_);
  }

  std::unique_ptr<std::function<void()>> life_;  // null: there is none, or it was joined
  pthread_t thread_ = {};
};

}  // namespace smelt
