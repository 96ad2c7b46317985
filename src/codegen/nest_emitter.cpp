#include "codegen/nest_emitter.h"

#include <algorithm>

#include "base/ensure.h"
#include "codegen/block_threads.h"
#include "graph/rules_algebra.h"
#include "schedule/tiles.h"

namespace smelt {
namespace {

constexpr int64_t kMostRounds = 1 << 12;      // of a loop, as far as they are counted
constexpr int64_t kMostBytesBeforeSums = 32;  // of a thread

bool reads_chip(const Refs& stores) {
  return std::any_of(stores.begin(), stores.end(), [](Ref s) {
    const Refs nodes = toposort(s);
    return std::any_of(nodes.begin(), nodes.end(),
                       [](Ref n) { return n->op == Op::Load && LoadView(n).buffer->op == Op::Local; });
  });
}

}  // namespace

Refs task_ranges(const Refs& stores) {
  Refs ranges = tile_ranges(stores);
  return ranges.empty() ? all_of_kind(StoreView(stores[0]).ranges, RangeKind::Task) : ranges;
}

Code NestEmitter::run() {
  scopes_.emplace_back();
  for (const ExpandedNest& nest : nests_) {
    for (Ref s : nest.stores)
      if (is_tile()) written_.insert(StoreView(s).buffer.get());
    if (nest.copies)
      for (const TaskCopy& copy : nest.copies->copies) written_.insert(copy.memory.get());
  }
  const size_t opened = open_task_loops();
  if (opened > 0 && idle_threads() > 0) scopes_[1].threads = program_.threads - idle_threads();
  for (const ExpandedNest& nest : nests_) {
    if (threads_of_some_ > 0 && !goes_on_with_some(nest)) close_scope_of_some();
    enter(nest);
    exchanges_ = 0;
    if (is_block()) add(top(), {.kind = Inst::Barrier});  // what one nest stores on chip, another one uses
    if (nest.copies) send_for_task(*nest.copies, {scopes_[opened].loop, static_cast<int>(opened)});
    find_siblings(nest.stores);
    find_shared(nest.stores);
    asked_.clear();
    hinted_.clear();
    ahead_ = nest.ahead ? &*nest.ahead : nullptr;
    staging_ = nest.staging ? &*nest.staging : nullptr;
    wants_weights_.reset();
    if (sends_weights_early(nest)) wants_weights_ = lacks_weights({scopes_[opened].loop, static_cast<int>(opened)});
    nest_threads_ = std::max(threads_of(nest.stores), kWarp);
    has_halves_ = !products_of_halves(nest.stores).empty();
    open_scope_of_some(nest);
    for (const Refs& group : groups_by_loops(nest.stores)) emit_stores(group);
  }
  if (threads_of_some_ > 0) close_scope_of_some();
  if (chunks_) close_scope();
  for (size_t i = 0; i < opened; ++i) close_scope();
  return std::move(scopes_[0].code);
}

Code NestEmitter::run_for(std::span<const TaskShare> readers) {
  Code nest = run();
  scopes_.assign(1, {});
  values_.clear();
  Value wanted;
  for (const TaskShare& reader : readers) {
    const Value has_task =
        alu(Op::Lt, DType::Bool,
            {first_task(reader.before, of_part(PartValue::Index), of_part(PartValue::Count)), value(reader.count)});
    wanted = wanted.id < 0 ? has_task : alu(Op::Or, DType::Bool, {wanted, has_task});
  }
  return under(std::move(nest), alu(Op::Cast, DType::I64, {wanted}));
}

Code NestEmitter::run_once() {
  Code nest = run();
  scopes_.assign(1, {});
  values_.clear();
  return under(std::move(nest), of_part(PartValue::Begins));
}

// What runs once or not at all: a loop of so many rounds.
Code NestEmitter::under(Code code, Value rounds) {
  open_scope(integer(0).id, rounds.id, constant(1));
  scopes_.back().code = std::move(code);
  close_scope();
  return std::move(scopes_[0].code);
}

// Threads of the block that other nests want, and that would only repeat here what the first ones do.
int64_t NestEmitter::idle_threads() const {
  int threads = 1;
  for (const ExpandedNest& nest : nests_) threads = std::max(threads, threads_of(nest.stores));
  return is_block() ? program_.threads - std::max(threads, kWarp) : 0;
}

// In a tile each nest is left to as many warps as it wants, unless the whole tile is left to some; 0: to all.
int NestEmitter::threads_of_some(const ExpandedNest& nest) const {
  const int threads = std::max(threads_of(nest.stores), kWarp);
  return is_block() && is_tile() && idle_threads() == 0 && threads < program_.threads ? threads : 0;
}

// Nests of the same warps, one behind the other, are theirs alone: the others wait behind the last of them, and what
// one of these threads has made stays in its registers (keep_in_registers.h). A nest that reads nothing on chip is run
// by more warps than it wants, rather than behind a wait.
bool NestEmitter::goes_on_with_some(const ExpandedNest& nest) const {
  const int threads = threads_of_some(nest);
  const bool are_enough = threads > 0 && threads < threads_of_some_ && !reads_chip(nest.stores);
  return (threads == threads_of_some_ || are_enough) && chunk_range(nest.stores) == chunks_ && !nest.copies;
}

void NestEmitter::open_scope_of_some(const ExpandedNest& nest) {
  if (threads_of_some_ == 0 && threads_of_some(nest) > 0) {
    open_scope(integer(0).id, integer(1).id, constant(1));
    threads_of_some_ = scopes_.back().threads = threads_of_some(nest);
  }
  floor_ = top();
}

void NestEmitter::close_scope_of_some() {
  close_scope();
  threads_of_some_ = 0;
}

// Opens and closes the loop over chunks around nests of a tile. What was loaded before may be stale now.
void NestEmitter::enter(const ExpandedNest& nest) {
  const Ref chunks = chunk_range(nest.stores);
  if (chunks_ && chunks != chunks_) close_scope();
  if (is_tile())
    std::erase_if(values_, [](const auto& entry) { return entry.second.depth > 0 && entry.first->op != Op::Range; });
  if (chunks && chunks != chunks_) open_loop(chunks);
  chunks_ = chunks;
  floor_ = top();
}

void NestEmitter::find_siblings(const Refs& stores) {
  reductions_.clear();
  siblings_.clear();
  passed_on_.clear();
  for (Ref s : stores)
    for (Ref n : toposort(s)) {
      if (is_reduce(n->op)) reductions_.insert(n.get());
      if (std::any_of(n->src.begin(), n->src.end(), [&](Ref x) {
            return (n->op != Op::Store && written_.contains(x.get())) || passed_on_.contains(x.get());
          }))
        passed_on_.insert(n.get());
    }
  for (const Node* n : reductions_) siblings_[{own_ranges(Ref(n)), facts_.height(Ref(n))}].push_back(Ref(n));
  for (auto& [key, group] : siblings_) std::sort(group.begin(), group.end(), structurally_less);
}

int NestEmitter::add(int depth, Instruction instruction) {
  scopes_[depth].code.push_back({std::move(instruction), next_id_});
  return next_id_++;
}

int NestEmitter::top() const { return static_cast<int>(scopes_.size()) - 1; }

// `size`: both ends lie between 0 and it.
void NestEmitter::open_scope(int begin, int end, Ref size) {
  scopes_.push_back({.begin = begin, .end = end, .loop = next_id_++});
  if (size->min >= 0) scopes_.back().within = {0, size->max};
}

void NestEmitter::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  Code& parent = scopes_.back().code;
  parent.push_back({{.kind = Inst::Loop,
                     .dtype = DType::I64,
                     .src = {scope.begin, scope.end},
                     .arg = {.i = scope.threads, .list = std::move(scope.within)}},
                    scope.loop});
  parent.insert(parent.end(), std::make_move_iterator(scope.code.begin()), std::make_move_iterator(scope.code.end()));
  add(top(), {.kind = Inst::EndLoop, .src = {scope.loop}});
  const int depth = static_cast<int>(scopes_.size());
  std::erase_if(values_, [&](const auto& entry) { return entry.second.depth >= depth; });
}

void NestEmitter::open_loop(Ref range) {
  const int zero = integer(0).id;
  const Ref size = RangeView(range).size;
  open_scope(zero, value(size).id, size);
  scopes_.back().rounds = std::clamp<int64_t>(size->max, 1, kMostRounds);
  scopes_.back().ranges = {range};
  values_[range.get()] = {scopes_.back().loop, top(), 1};
}

// The tasks of a nest are the iterations of all its Task loops together. Returns how many loops were opened.
size_t NestEmitter::open_task_loops() {
  if (nests_[0].is_local) return 0;
  const Refs tasks = task_ranges(nests_[0].stores);
  Ref count = constant(1);
  for (Ref r : tasks) count = count * RangeView(r).size;
  const Value total = total_of(tasks);
  const Refs sweeps = all_of_kind(StoreView(nests_[0].stores[0]).ranges, RangeKind::Sweep);
  for (Ref r : sweeps) open_loop(r);
  know_tasks(tasks, open_loop_over_share(total, count));
  scopes_.back().ranges = tasks;
  return sweeps.size() + 1;
}

Value NestEmitter::total_of(const Refs& tasks) {
  Value total = integer(1);
  for (Ref r : tasks) total = alu(Op::Mul, DType::I64, {total, value(RangeView(r).size)});
  return total;
}

// The ranges whose iterations together make the task of this number.
void NestEmitter::know_tasks(const Refs& tasks, Value number) {
  for (size_t i = tasks.size(); i-- > 0;) {
    const Value size = value(RangeView(tasks[i]).size);
    values_[tasks[i].get()] = i == 0 ? number : alu(Op::Mod, DType::I64, {number, size});
    if (i > 0) number = alu(Op::Div, DType::I64, {number, size});
  }
}

Value NestEmitter::of_part(PartValue value) {
  const auto which = static_cast<int64_t>(value);
  return {add(0, {.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = which}}), 0, 1};
}

// Over the tasks of a worker, in each sweep the same ones: `total` of them, a value of the node `count`. A thread takes
// an equal, contiguous share.
Value NestEmitter::open_loop_over_share(Value total, Ref count) {
  const Value part = of_part(PartValue::Index), parts = of_part(PartValue::Count);
  if (is_block()) return open_loop_of_block(total, count, part, parts);
  const auto share = [&](Value p) { return alu(Op::Div, DType::I64, {alu(Op::Mul, DType::I64, {total, p}), parts}); };
  const Value begin = share(part), end = share(alu(Op::Add, DType::I64, {part, integer(1)}));
  open_scope(begin.id, end.id, count);
  return {scopes_.back().loop, top(), 1};
}

Value NestEmitter::first_task(Ref before, Value part, Value parts) {
  if (const_int(before) == 0) return part;
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const Value shift = i64(Op::Mod, value(before), parts);
  return i64(Op::Mod, i64(Op::Add, part, i64(Op::Sub, parts, shift)), parts);
}

// Blocks take task by task in turn, and begin behind those that have the last tasks of the nests before.
Value NestEmitter::open_loop_of_block(Value total, Ref count, Value part, Value parts) {
  const auto i64 = [&](Op op, Value x, Value y) { return alu(op, DType::I64, {x, y}); };
  const Value turn = first_task(tasks_before_, part, parts);
  const Value rest = i64(Op::Add, i64(Op::Sub, total, turn), i64(Op::Sub, parts, integer(1)));
  // Bounds do not tell that the rest is never negative, the maximum does: a quotient then needs no rounding down.
  const Value rounds = i64(Op::Div, i64(Op::Max, rest, integer(0)), parts);
  open_scope(integer(0).id, rounds.id, count);
  return i64(Op::Add, turn, i64(Op::Mul, {scopes_.back().loop, top(), 1}, parts));
}

std::vector<Refs> NestEmitter::groups_by_loops(const Refs& stores) const {
  std::vector<Refs> groups;
  for (Ref s : stores) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Refs& g) {
      return all_of_kind(StoreView(g[0]).ranges, RangeKind::Loop) == all_of_kind(StoreView(s).ranges, RangeKind::Loop);
    });
    if (same == groups.end())
      groups.push_back({s});
    else
      same->push_back(s);
  }
  return groups;
}

// What sums are added to or multiplied with is asked for before they are made, as behind their barriers threads would
// only wait for it: all of it, or nothing where that would take more registers than a thread has to spare.
void NestEmitter::load_before_sums(const Refs& stored) {
  if (!is_block()) return;
  Refs loads, reached = stored;
  std::set<const Node*> seen;
  int64_t bytes = 0;
  bool has_sums = false;
  for (size_t i = 0; i < reached.size(); ++i) {
    const Ref n = reached[i];
    if (!seen.insert(n.get()).second) continue;
    if (is_reduce(n->op) || n->op == Op::LaneReduce || n->op == Op::MatrixItem) {
      has_sums = true;
    } else if (n->op != Op::Load) {
      reached.insert(reached.end(), n->src.begin(), n->src.end());
    } else if (LoadView(n).buffer->op == Op::Param && all_known(facts_.free_ranges(n))) {
      loads.push_back(n);
      bytes += static_cast<int64_t>(size_of(n->dtype));
    }
  }
  if (!has_sums || bytes > kMostBytesBeforeSums) return;
  for (Ref load : loads) value(load);
}

void NestEmitter::emit_stores(const Refs& group) {
  const Refs loops = all_of_kind(StoreView(group[0]).ranges, RangeKind::Loop);
  for (Ref r : loops) open_loop(r);
  Refs stored;
  for (Ref s : group) stored.push_back(StoreView(s).value);
  load_before_sums(stored);
  exchange_together(stored);
  compute_together(stored);
  std::vector<Value> values;
  for (Ref s : stored) values.push_back(value(s));
  for (size_t i = 0; i < group.size(); ++i) emit_store(group[i], values[i]);
  for (size_t i = 0; i < loops.size(); ++i) close_scope();
}

namespace {

// In how many tiles all of what is ahead is asked for: a few use the panel of an expert, many that of all tokens.
constexpr int64_t kTurnsOfSome = 2, kTurnsOfAll = 16;

int64_t wanted_turns(const Ahead& ahead) { return reads_memory(ahead.offset) ? kTurnsOfSome : kTurnsOfAll; }

}  // namespace

// A line, or some where rounds are few, in the innermost loop as it is now.
void NestEmitter::ask_ahead() {
  int64_t rounds = 1;
  Value round = integer(0);
  for (int depth = 2; depth <= top(); ++depth) {  // behind the loop over tiles
    const Value index{scopes_[depth].loop, depth, 1};
    rounds *= scopes_[depth].rounds;
    round = alu(Op::Add, DType::I64, {alu(Op::Mul, DType::I64, {round, integer(scopes_[depth].rounds)}), index});
  }
  const auto shares = [](int64_t n, int64_t among) { return (n + among - 1) / among; };
  const int64_t size = machine_.line_bytes, lines = shares(ahead_->bytes, size);
  const int64_t at_once = shares(lines, rounds * wanted_turns(*ahead_)), turns = shares(lines, rounds * at_once);
  const Value turn = alu(Op::Mod, DType::I64, {value(ahead_->turn), integer(turns)}),
              line = alu(Op::Add, DType::I64, {alu(Op::Mul, DType::I64, {turn, integer(rounds)}), round}),
              at = alu(Op::Add, DType::I64,
                       {value(ahead_->offset), alu(Op::Mul, DType::I64, {line, integer(at_once * size)})});
  for (int64_t i = 0; i < at_once; ++i) {
    const Value next = i ? alu(Op::Add, DType::I64, {at, integer(i * size)}) : at;
    add(top(), {.kind = Inst::Prefetch, .src = {value(ahead_->buffer).id, next.id}});
  }
}

void NestEmitter::emit_store(Ref store, Value v) {
  const StoreView view(store);
  const Refs lanes = all_of_kind(view.ranges, RangeKind::Lane);
  Ref offset = view.offset;
  Instruction out{.kind = Inst::Store, .dtype = view.value->dtype, .lanes = 1};
  std::optional<Value> storing;
  if (is_block()) {
    storing = storing_threads(lanes);
  } else if (!lanes.empty()) {
    ENSURE(lanes.size() == 1 && stride(offset, lanes[0]) == size_of(out.dtype), "lanes of a store are not neighbours");
    offset = substitute(offset, {{lanes[0], constant(0)}});
    out.lanes = static_cast<int>(RangeView(lanes[0]).count());
  } else {
    ENSURE(v.lanes == 1, "a vector is stored in one element");
  }
  out.src = {value(view.buffer).id, value(offset).id, v.id};
  if (storing) out.src.push_back(storing->id);
  add(top(), std::move(out));
}

}  // namespace smelt
