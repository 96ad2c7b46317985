// How many blocks a multiprocessor of a GPU should hold at once, which leaves so many registers to each thread.
#pragma once

#include <algorithm>

namespace smelt {

// Threads of all these blocks. Of 65,536 registers each has some 80, or 128, where they keep sums of many products.
constexpr int kResidentThreads = 768, kResidentThreadsOfProducts = 512;

inline int resident_blocks(int threads, bool has_products) {
  return std::max(1, (has_products ? kResidentThreadsOfProducts : kResidentThreads) / threads);
}

}  // namespace smelt
