#include "app/bench_block_timer.h"

namespace smelt {

BlockTimer::BlockTimer(BenchSession& session) : session_(session) {
  for (PlanKind plan : {PlanKind::Decode, PlanKind::MiddleDecode, PlanKind::LongDecode, PlanKind::WideDecode,
                        PlanKind::Prefill, PlanKind::LongPrefill})
    plans_[plan] = session.session().loaded().launches(plan);
  session.session().loaded().observe([this](const RunTimes& run) { listen(run); });
}

BlockTimer::~BlockTimer() { session_.session().loaded().observe({}); }

const std::vector<BlockLaunch>& BlockTimer::launches(PlanKind plan, int64_t tokens) {
  auto& parts = parts_[{plan, tokens}];
  if (parts.empty()) parts = parts_of(plans_.at(plan), session_.file(), session_.model(), tokens);
  return parts;
}

void BlockTimer::listen(const RunTimes& run) {
  if (!plans_.contains(run.plan)) return;  // the head
  const std::vector<BlockLaunch>& parts = launches(run.plan, run.tokens);
  if (run.times_ns.size() != parts.size() + 1) return;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double seconds = static_cast<double>(run.times_ns[i + 1] - run.times_ns[i]) * 1e-9;
    BlockTime& block = times_[parts[i].layer];
    const bool is_shared = parts[i].shares.size() > 1;
    const auto add = [&](PartTime& time, double share) {
      time.seconds += seconds * share;
      time.launches += 1;
      time.shared += is_shared ? 1 : 0;
    };
    add(block.all, 1);
    for (const auto& [part, share] : parts[i].shares) add(block.parts[part], share);
  }
}

}  // namespace smelt
