#include "app/interrupt.h"

#include <csignal>

namespace smelt {
namespace {

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

}  // namespace smelt
