// How to do the part of opening a session that takes its time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace smelt {

struct LoadOptions {
  int threads = 1;
  // Called by the caller's thread. May be empty.
  std::function<void(double fraction)> progress;
  // When it becomes true, the work stops within milliseconds.
  const std::atomic<bool>* cancel = nullptr;

  bool cancelled() const { return cancel && cancel->load(std::memory_order_relaxed); }
  void report(int64_t done, int64_t total) const {
    if (progress) progress(static_cast<double>(done) / static_cast<double>(total));
  }
};

}  // namespace smelt
