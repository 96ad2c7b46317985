// Empties the processor's caches of what was there, by reading other memory.
#pragma once

#include <memory>

#include "base/result.h"
#include "runtime/cpu/workers.h"
#include "runtime/memory.h"

namespace smelt {

class CacheFlush {
 public:
  // For runs on so many threads: each reads what its own caches and its part of the shared one hold, several times
  // over.
  static Result<std::unique_ptr<CacheFlush>> make(int threads);

  // Of all cores and of what they share.
  int64_t cache_bytes() const { return cache_bytes_; }

  // Whether part of some bytes that are read again and again might stay in the caches.
  bool is_needed(int64_t bytes) const { return bytes < kTimes * cache_bytes_; }

  void run();

 private:
  CacheFlush(int threads, int64_t cache_bytes) : workers_(threads), cache_bytes_(cache_bytes) {}

  static constexpr int64_t kTimes = 3;  // caches keep some of the old when they are read over once

  Workers workers_;
  Buffer buffer_;
  int64_t cache_bytes_;
};

}  // namespace smelt
