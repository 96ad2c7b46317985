#include "app/interrupt.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include "app/command.h"
#include "base/new_file.h"

namespace smelt {
namespace {

constexpr auto kLook = std::chrono::milliseconds(10);
constexpr auto kGrace = std::chrono::milliseconds(50);  // giving back the memory of a model takes longer

std::atomic<bool> pressed = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");

void on_interrupt(int) { pressed.store(true, std::memory_order_relaxed); }

void listen() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  // After the first signal the default returns, which ends the program.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

const std::atomic<bool>& interrupted() {
  static const bool listening = (listen(), true);
  (void)listening;
  return pressed;
}

void forget_interrupt() {
  pressed = false;
  listen();
}

bool was_interrupted() { return pressed; }

EndSoon::EndSoon(std::function<void()> last_words) : last_words_(std::move(last_words)) {
  try {
    thread_ = Thread([this] { watch(); });
  } catch (const std::system_error&) {  // the system refuses a thread: Ctrl-C takes as long as the work
  }
}

EndSoon::~EndSoon() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EndSoon::watch() {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return is_over_; };
  while (!ended_.wait_for(lock, kLook, over)) {
    if (!was_interrupted()) continue;
    if (ended_.wait_for(lock, kGrace, over)) return;
    last_words_();
    remove_unfinished_files();
    ::_exit(kExitInterrupted);
  }
}

}  // namespace smelt
