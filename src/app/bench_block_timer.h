// Listens to a session and adds up what each part of each block took.
#pragma once

#include <map>
#include <vector>

#include "app/bench_block_parts.h"
#include "app/bench_session.h"

namespace smelt {

struct PartTime {
  double seconds = 0;
  int launches = 0;  // those that work for this part, alone or with others
  int shared = 0;    // those of them that work for others, too
};

struct BlockTime {
  PartTime all;
  std::map<BlockPart, PartTime> parts;
};

class BlockTimer {
 public:
  // REQUIRES: the session outlives it.
  explicit BlockTimer(BenchSession& session);
  ~BlockTimer();
  BlockTimer(const BlockTimer&) = delete;
  BlockTimer& operator=(const BlockTimer&) = delete;

  // Since the last call.
  using Times = std::map<int64_t, BlockTime>;  // by layer
  Times take() { return std::exchange(times_, {}); }

 private:
  void listen(const RunTimes& run);
  const std::vector<BlockLaunch>& launches(PlanKind plan, int64_t tokens);

  BenchSession& session_;
  std::map<PlanKind, std::vector<PlanLaunch>> plans_;
  std::map<std::pair<PlanKind, int64_t>, std::vector<BlockLaunch>> parts_;  // by plan and tokens
  Times times_;
};

}  // namespace smelt
