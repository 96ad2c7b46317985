// Weights that a block asks for while the launch before still runs.
#include <algorithm>
#include <map>

#include "codegen/footprint.h"
#include "codegen/nest_emitter.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kFewestBytes = 1 << 10;  // what is smaller comes fast enough
constexpr int64_t kMostBytes = 64 << 10;   // of one buffer: all blocks together ask for what the cache can hold

// What one task reads of a buffer.
struct Region {
  std::vector<int64_t> strides;  // from task to task, of each range of the tasks
  std::vector<Pattern> patterns;
  bool is_known = true;

  int64_t first() const {
    int64_t at = patterns[0].first;
    for (const Pattern& p : patterns) at = std::min(at, p.first);
    return at;
  }
  int64_t bytes() const {
    int64_t end = 0;
    for (const Pattern& p : patterns) {
      int64_t span = p.first + p.bytes;
      for (const Pattern::Step& step : p.steps) span += step.stride * (step.count - 1);
      end = std::max(end, span);
    }
    return (end - first() + kFetchUnit - 1) / kFetchUnit * kFetchUnit;
  }
  bool is_aligned() const {
    return first() % kFetchUnit == 0 &&
           std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s % kFetchUnit == 0; });
  }
  // Not what several tasks read, nor a few bytes here and there.
  bool pays() const {
    const bool is_of_task = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s != 0; });
    return is_known && is_of_task && bytes() >= kFewestBytes && bytes() <= kMostBytes && is_aligned() &&
           2 * distinct_bytes(patterns) >= static_cast<double>(bytes());
  }
};

bool reads_memory(Ref offset) {
  const Refs nodes = toposort(offset);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::Load; });
}

void add_load(Region& region, Ref load, const Refs& tasks) {
  const Ref offset = LoadView(load).offset;
  region.is_known &= !reads_memory(offset);
  if (!region.is_known) return;
  Ref in_first_task = offset;
  std::vector<int64_t> strides;
  for (Ref r : tasks) {
    const auto step = stride(offset, r);
    region.is_known &= step.has_value();
    strides.push_back(step.value_or(0));
    in_first_task = substitute(in_first_task, {{r, constant(0, r->dtype)}});
  }
  region.is_known &= region.patterns.empty() || strides == region.strides;
  region.strides = std::move(strides);
  region.patterns.push_back(pattern_of(simplify(in_first_task), size_of(load->dtype)));
}

std::map<int64_t, std::pair<Ref, Region>> regions_of(const Refs& stores, const Refs& tasks) {
  std::map<int64_t, std::pair<Ref, Region>> regions;  // by number of the buffer
  std::set<const Node*> seen;
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (n->op != Op::Load || LoadView(n).buffer->op != Op::Param || !seen.insert(n.get()).second) continue;
      const Ref buffer = LoadView(n).buffer;
      auto& [param, region] = regions[number_of_buffer(buffer)];
      param = buffer;
      if (region.is_known) add_load(region, n, tasks);
    }
  return regions;
}

}  // namespace

Code NestEmitter::ask_early() {
  scopes_.emplace_back();
  const Refs tasks = task_ranges(nests_[0].stores);
  if (nests_[0].is_local || tasks.empty()) return {};
  Refs stores;
  for (const ExpandedNest& nest : nests_) stores.insert(stores.end(), nest.stores.begin(), nest.stores.end());
  for (const auto& [number, known] : regions_of(stores, tasks)) {
    const auto& [buffer, region] = known;
    if (!region.pays()) continue;
    const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
    if (!values_.contains(tasks[0].get()))  // blocks that have no task in this nest ask for the last one's
      know_tasks(tasks, i64(Op::Min, first_task(tasks_before_, of_part(PartValue::Index), of_part(PartValue::Count)),
                            i64(Op::Sub, total_of(tasks), integer(1))));
    Value at = integer(region.first());
    for (size_t i = 0; i < tasks.size(); ++i)
      at = i64(Op::Add, at, i64(Op::Mul, value(tasks[i]), integer(region.strides[i])));
    add(0, {.kind = Inst::Fetch, .src = {value(buffer).id, at.id}, .arg = {.i = region.bytes()}});
  }
  return std::move(scopes_[0].code);
}

}  // namespace smelt
