// What a block asks for while the launch before still runs.
#include <algorithm>

#include "codegen/early_regions.h"
#include "codegen/nest_emitter.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {

// Blocks that have no task in this nest ask for the last one's.
void NestEmitter::know_first_task(const Refs& tasks) {
  if (values_.contains(tasks[0].get())) return;
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  know_tasks(tasks, i64(Op::Min, first_task(tasks_before_, of_part(PartValue::Index), of_part(PartValue::Count)),
                        i64(Op::Sub, total_of(tasks), integer(1))));
}

// Asks for the pages of a region, a thread for each: tasks that read the same pages take them in turn. `at`: where the
// first task's part of page 0 is. `before`: pages of the region that were asked for.
void NestEmitter::ask_for_pages(const EarlyRegion& region, const EarlyPages& pages, int64_t before, Value at,
                                const Refs& tasks) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const auto equal = [&](Value x, Value y) { return alu(Op::Eq, DType::Bool, {x, y}); };
  Value mine = i64(Op::Min, thread(), integer(pages.count() - 1));
  Value sharer = integer(0), sharers = integer(1);
  for (Ref r : sharers_of(region, tasks)) {
    const Value size = value(RangeView(r).size);
    sharer = i64(Op::Add, i64(Op::Mul, sharer, size), value(r));
    sharers = i64(Op::Mul, sharers, size);
  }
  const Value turn = i64(Op::Mod, i64(Op::Add, mine, integer(before)), sharers),
              is_asked = alu(Op::And, DType::Bool, {equal(mine, thread()), equal(turn, sharer)});
  for (size_t i = pages.ranges.size(); i-- > 0;) {
    const Value size = integer(RangeView(pages.ranges[i]).most());
    values_[pages.ranges[i].get()] = i == 0 ? mine : i64(Op::Mod, mine, size);
    mine = i64(Op::Div, mine, size);
  }
  const Value number = alu(Op::Cast, DType::I64, {value(pages.number)});
  at = i64(Op::Add, at, i64(Op::Mul, number, integer(region.page_bytes)));
  add(0, {.kind = Inst::Fetch, .src = {value(region.buffer).id, at.id, is_asked.id}, .arg = {.i = region.bytes()}});
}

Code NestEmitter::ask_early() {
  scopes_.emplace_back();
  const Refs tasks = task_ranges(nests_[0].stores);
  if (nests_[0].is_local || tasks.empty()) return {};
  Refs stores;
  for (const ExpandedNest& nest : nests_) {
    stores.insert(stores.end(), nest.stores.begin(), nest.stores.end());
    if (nest.copies) send_for_first_task(*nest.copies, tasks);
    if (sends_weights_early(nest)) send_first_weights(nest, tasks);
  }
  for (const auto& [number, region] : early_regions(stores, tasks)) {
    if (!region.pays(tasks)) continue;
    know_first_task(tasks);
    const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
    Value at = integer(region.first());
    for (size_t i = 0; i < tasks.size(); ++i)
      at = i64(Op::Add, at, i64(Op::Mul, value(tasks[i]), integer(region.strides[i])));
    if (region.pages.empty())
      add(0, {.kind = Inst::Fetch, .src = {value(region.buffer).id, at.id}, .arg = {.i = region.bytes()}});
    int64_t before = 0;
    for (const EarlyPages& pages : region.pages) {
      ask_for_pages(region, pages, before, at, tasks);
      before += pages.count();
    }
  }
  return std::move(scopes_[0].code);
}

// A kernel of many tasks, if their number grows with tokens or positions, fills the processors for long: blocks behind
// it would only be in its way. Where each task has a block, those of the next launch come when all of these are there,
// before they wait: behind a short kernel they would be too late to have their weights on chip in time.
Code NestEmitter::await(Ref tasks) {
  scopes_.emplace_back();
  Instruction await{.kind = Inst::Await};
  if (!is_const(tasks) && tasks->max > machine_.early_launch_tasks)
    await.src = {alu(Op::Lt, DType::Bool, {integer(machine_.early_launch_tasks), value(tasks)}).id};
  else if (program_.blocks > 0)
    await.arg.i = 1;
  add(0, std::move(await));
  return std::move(scopes_[0].code);
}

}  // namespace smelt
