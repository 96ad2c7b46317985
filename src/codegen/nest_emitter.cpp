#include "codegen/nest_emitter.h"

#include <algorithm>

#include "base/ensure.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kLine = 64;             // bytes
constexpr int64_t kMostRounds = 1 << 12;  // of a loop, as far as they are counted

}  // namespace

Refs tile_ranges_of(const ExpandedNest& nest) {
  Refs out;
  const Ref store = nest.stores[0];
  for (size_t i = 3; i < store->src.size(); ++i)
    if (kind_of(store->src[i]) == RangeKind::Tile) out.push_back(store->src[i]);
  return out;
}

Ref step_range_of(const ExpandedNest& nest) {
  const Ref store = nest.stores[0];
  for (size_t i = 3; i < store->src.size(); ++i)
    if (kind_of(store->src[i]) == RangeKind::Step) return store->src[i];
  return Ref();
}

Code NestEmitter::run() {
  scopes_.emplace_back();
  for (const ExpandedNest& nest : nests_)
    for (Ref s : nest.stores)
      if (nests_.size() > 1) written_.insert(s->src[0].get());
  const size_t opened = open_task_loops();
  for (const ExpandedNest& nest : nests_) {
    enter(nest);
    find_siblings(nest.stores);
    find_shared(nest.stores);
    ahead_ = nest.ahead ? &*nest.ahead : nullptr;
    for (const Refs& group : groups_by_loops(nest.stores)) emit_stores(group);
  }
  if (step_) close_scope();
  for (size_t i = 0; i < opened; ++i) close_scope();
  return std::move(scopes_[0].code);
}

// Opens and closes the loop around nests of a tile. What was read before may have been written since.
void NestEmitter::enter(const ExpandedNest& nest) {
  const Ref step = step_range_of(nest);
  if (step_ && step != step_) close_scope();
  if (is_tile())
    std::erase_if(values_, [](const auto& entry) {
      return entry.second.depth > 0 && entry.first->op != Op::Range;
    });
  if (step && step != step_) open_loop(step);
  step_ = step;
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
            return (n->op != Op::Store && written_.contains(x.get())) ||
                   passed_on_.contains(x.get());
          }))
        passed_on_.insert(n.get());
    }
  for (const Node* n : reductions_)
    siblings_[{bound_ranges(Ref(n)), facts_.height(Ref(n))}].push_back(Ref(n));
  for (auto& [key, group] : siblings_) std::sort(group.begin(), group.end(), structurally_less);
}

int NestEmitter::add(int depth, Instruction instruction) {
  scopes_[depth].code.push_back({std::move(instruction), next_id_});
  return next_id_++;
}

int NestEmitter::top() const { return static_cast<int>(scopes_.size()) - 1; }

void NestEmitter::open_scope(int begin, int end) {
  scopes_.push_back({.begin = begin, .end = end, .loop = next_id_++});
}

void NestEmitter::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  Code& parent = scopes_.back().code;
  parent.push_back(
      {{.kind = Inst::Loop, .dtype = DType::I64, .src = {scope.begin, scope.end}}, scope.loop});
  parent.insert(parent.end(), std::make_move_iterator(scope.code.begin()),
                std::make_move_iterator(scope.code.end()));
  add(top(), {.kind = Inst::EndLoop, .src = {scope.loop}});
  const int depth = static_cast<int>(scopes_.size());
  std::erase_if(values_, [&](const auto& entry) { return entry.second.depth >= depth; });
}

void NestEmitter::open_loop(Ref range) {
  const int zero = integer(0).id;
  const Value size = value(range->src[0]);
  open_scope(zero, size.id);
  scopes_.back().rounds = std::clamp<int64_t>(range->src[0]->max, 1, kMostRounds);
  values_[range.get()] = {scopes_.back().loop, top(), 1};
}

Refs NestEmitter::loops_of(Ref store, RangeKind kind) const {
  Refs loops;
  for (size_t i = 3; i < store->src.size(); ++i)
    if (kind_of(store->src[i]) == kind) loops.push_back(store->src[i]);
  return loops;
}

// The tasks of a nest are the iterations of all its Task loops together; a worker takes an equal, contiguous share, in
// each pass the same. Returns how many loops were opened.
size_t NestEmitter::open_task_loops() {
  Refs tasks = tile_ranges_of(nests_[0]);
  if (tasks.empty()) tasks = loops_of(nests_[0].stores[0], RangeKind::Task);
  if (nests_[0].is_local) return 0;
  Value total = integer(1);
  for (Ref r : tasks) total = alu(Op::Mul, DType::I64, {total, value(r->src[0])});
  const Value part{add(0, {.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 0}}), 0, 1};
  const Value parts{add(0, {.kind = Inst::Part, .dtype = DType::I64, .arg = {.i = 1}}), 0, 1};
  const auto share = [&](Value p) {
    return alu(Op::Div, DType::I64, {alu(Op::Mul, DType::I64, {total, p}), parts});
  };
  const Value begin = share(part), end = share(alu(Op::Add, DType::I64, {part, integer(1)}));
  const Refs passes = loops_of(nests_[0].stores[0], RangeKind::Pass);
  for (Ref r : passes) open_loop(r);
  open_scope(begin.id, end.id);
  Value rest{scopes_.back().loop, top(), 1};
  for (size_t i = tasks.size(); i-- > 0;) {
    const Value size = value(tasks[i]->src[0]);
    values_[tasks[i].get()] = i == 0 ? rest : alu(Op::Mod, DType::I64, {rest, size});
    if (i > 0) rest = alu(Op::Div, DType::I64, {rest, size});
  }
  return passes.size() + 1;
}

std::vector<Refs> NestEmitter::groups_by_loops(const Refs& stores) const {
  std::vector<Refs> groups;
  for (Ref s : stores) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const Refs& g) {
      return loops_of(g[0], RangeKind::Loop) == loops_of(s, RangeKind::Loop);
    });
    if (same == groups.end())
      groups.push_back({s});
    else
      same->push_back(s);
  }
  return groups;
}

void NestEmitter::emit_stores(const Refs& group) {
  const Refs loops = loops_of(group[0], RangeKind::Loop);
  for (Ref r : loops) open_loop(r);
  Refs stored;
  for (Ref s : group) stored.push_back(s->src[2]);
  compute_together(stored);
  std::vector<Value> values;
  for (Ref s : group) values.push_back(value(s->src[2]));
  for (size_t i = 0; i < group.size(); ++i) emit_store(group[i], values[i]);
  for (size_t i = 0; i < loops.size(); ++i) close_scope();
}

// One line, in the innermost loop as it is now.
void NestEmitter::ask_ahead() {
  int64_t rounds = 1;
  Value round = integer(0);
  for (int depth = 2; depth <= top(); ++depth) {  // behind the loop over tiles
    const Value index{scopes_[depth].loop, depth, 1};
    rounds *= scopes_[depth].rounds;
    round = alu(Op::Add, DType::I64,
                {alu(Op::Mul, DType::I64, {round, integer(scopes_[depth].rounds)}), index});
  }
  const int64_t lines = (ahead_->bytes + kLine - 1) / kLine, turns = (lines + rounds - 1) / rounds;
  const Value turn = alu(Op::Mod, DType::I64, {value(ahead_->turn), integer(turns)}),
              line = alu(Op::Add, DType::I64,
                         {alu(Op::Mul, DType::I64, {turn, integer(rounds)}), round}),
              at = alu(Op::Add, DType::I64,
                       {value(ahead_->offset), alu(Op::Mul, DType::I64, {line, integer(kLine)})});
  add(top(), {.kind = Inst::Prefetch, .src = {value(ahead_->buffer).id, at.id}});
}

void NestEmitter::emit_store(Ref store, Value v) {
  const Refs lanes = loops_of(store, RangeKind::Lane);
  Ref offset = store->src[1];
  Instruction out{.kind = Inst::Store, .dtype = store->src[2]->dtype, .lanes = 1};
  if (!lanes.empty()) {
    ENSURE(lanes.size() == 1 && stride(offset, lanes[0]) == size_of(out.dtype),
           "lanes of a store are not neighbours");
    offset = substitute(offset, {{lanes[0], constant(0)}});
    out.lanes = static_cast<int>(lanes[0]->src[0]->arg.i);
  } else {
    ENSURE(v.lanes == 1, "a vector is stored in one element");
  }
  out.src = {value(store->src[0]).id, value(offset).id, v.id};
  add(top(), std::move(out));
}

}  // namespace smelt
