// A loop over independent items on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <system_error>
#include <vector>

#include "base/thread.h"

namespace smelt {

// Calls f(item, worker) once for each item of 0 .. count - 1, in about that order, on up to `threads` threads; worker
// 0 is the caller, so what is to happen in one thread only (a progress bar, say) happens there. Returns when all are
// done. Where the system gives fewer threads, those do all of it.
template <class F>
void for_each_in_parallel(size_t count, int threads, const F& f) {
  std::atomic<size_t> next = 0;
  const auto work = [&](int worker) {
    for (size_t i = next++; i < count; i = next++) f(i, worker);
  };
  std::vector<Thread> others;
  try {
    for (int i = 1; i < threads && static_cast<size_t>(i) < count; ++i) others.emplace_back([&work, i] { work(i); });
  } catch (const std::system_error&) {  // the system refuses a thread: those that are there do the work
  }
  work(0);
  for (Thread& thread : others) thread.join();
}

}  // namespace smelt
