#include "schedule/memory_plan.h"

#include <doctest/doctest.h>

#include <random>

using namespace smelt;

namespace {

bool alive_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

bool apart(const TempBuffer& a, const TempBuffer& b) {
  return a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
}

}  // namespace

TEST_CASE("buffers that are never alive together share memory") {
  const MemoryPlan plan = plan_memory({{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}});
  CHECK(plan.buffers[0].offset == plan.buffers[1].offset);
  CHECK(plan.buffers[1].offset == plan.buffers[2].offset);
  CHECK(plan.bytes < 1200);
}

TEST_CASE("a buffer that is read while another is written lies elsewhere") {
  const MemoryPlan plan = plan_memory({{1000, 0, 1}, {1000, 1, 2}});
  CHECK(apart(plan.buffers[0], plan.buffers[1]));
}

TEST_CASE("a small buffer fits into a gap") {
  const MemoryPlan plan = plan_memory({{1000, 0, 9}, {640, 0, 3}, {100, 4, 9}});
  CHECK(plan.buffers[2].offset == plan.buffers[1].offset);
}

TEST_CASE("no buffers need no memory") { CHECK(plan_memory({}).bytes == 0); }

TEST_CASE("random lifetimes never overlap, are aligned and followed by spare bytes") {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (uint64_t i = 0, n = 1 + rng() % 30; i < n; ++i) {
      const int first = static_cast<int>(rng() % 20);
      lifetimes.push_back(
          {.bytes = static_cast<int64_t>(rng() % 5000), .first = first, .last = first + static_cast<int>(rng() % 6)});
    }
    const MemoryPlan plan = plan_memory(lifetimes);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      CHECK(plan.buffers[i].bytes == lifetimes[i].bytes);
      CHECK(plan.buffers[i].offset % 64 == 0);
      CHECK(plan.buffers[i].offset + plan.buffers[i].bytes + 64 <= plan.bytes);
      for (size_t j = 0; j < i; ++j)
        if (alive_together(lifetimes[i], lifetimes[j])) CHECK(apart(plan.buffers[i], plan.buffers[j]));
    }
  }
}
