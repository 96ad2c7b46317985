#include "egraph/egraph.h"

#include <algorithm>
#include <numeric>

#include "base/ensure.h"

namespace smelt::egraph {
namespace {

size_t mix(size_t hash, size_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

// Leaves that do not change from token to token.
bool is_constant_leaf(EOp op) { return op == EOp::Weight || op == eop(Op::Const) || op == eop(Op::Iota); }

}  // namespace

static_assert(static_cast<int>(Op::Sink) < kTensorOps);

std::string_view name_of(EOp op) {
  if (is_tensor_op(op)) return smelt::name_of(tensor_op(op));
  switch (op) {
    case EOp::Weight: return "weight";
    case EOp::Contract: return "contract";
    case EOp::Concat: return "concat";
    case EOp::Select: return "select";
    case EOp::GatheredCopy: return "gathered_copy";
    case EOp::Quantised: return "quantised";
  }
  return "?";
}

size_t ENodeHash::operator()(const ENode& node) const {
  size_t h = mix(static_cast<size_t>(node.op), static_cast<size_t>(node.dtype));
  h = mix(h, static_cast<size_t>(node.arg.i));
  h = mix(h, std::bit_cast<uint64_t>(node.arg.f));
  h = mix(h, std::hash<std::string>()(node.arg.name));
  for (int64_t v : node.arg.list) h = mix(h, static_cast<size_t>(v));
  for (Ref d : node.shape) h = mix(h, static_cast<size_t>(d->key));
  for (ClassId c : node.src) h = mix(h, c);
  return h;
}

ClassId EGraph::find(ClassId id) const {
  while (leader_[id] != id) id = leader_[id];
  return id;
}

ENode EGraph::canonical(ENode node) const {
  for (ClassId& c : node.src) c = find(c);
  return node;
}

Facts EGraph::facts_of(const ENode& node) const {
  const bool constant = node.src.empty()
                            ? is_constant_leaf(node.op)
                            : std::ranges::all_of(node.src, [&](ClassId c) { return facts(c).is_constant; });
  return {node.dtype, node.shape, constant};
}

ClassId EGraph::add(ENode node) {
  node = canonical(std::move(node));
  if (auto it = memo_.find(node); it != memo_.end()) return find(it->second);
  const auto id = static_cast<ClassId>(classes_.size());
  leader_.push_back(id);
  classes_.push_back({.nodes = {node}, .births = {births_++}, .parents = {}, .facts = facts_of(node)});
  for (ClassId c : node.src) classes_[c].parents.emplace_back(node, id);
  memo_.emplace(std::move(node), id);
  return id;
}

bool EGraph::merge(ClassId a, ClassId b) {
  a = find(a), b = find(b);
  if (a == b) return false;
  ENSURE(facts(a).dtype == facts(b).dtype && facts(a).shape == facts(b).shape,
         "merged values differ in dtype or shape: " + std::string(name_of(classes_[a].nodes[0].op)) + ", " +
             std::string(name_of(classes_[b].nodes[0].op)));
  if (b < a) std::swap(a, b);  // the older id leads
  EClass &to = classes_[a], &from = classes_[b];
  leader_[b] = a;
  to.facts.is_constant |= from.facts.is_constant;
  std::ranges::move(from.nodes, std::back_inserter(to.nodes));
  std::ranges::move(from.births, std::back_inserter(to.births));
  std::ranges::move(from.parents, std::back_inserter(to.parents));
  from = {};
  pending_.push_back(a);
  return true;
}

// Congruence and facts, upwards: parents that have become equal nodes are one class, and learn what their sources have
// learned.
void EGraph::repair(ClassId id) {
  std::vector<std::pair<ENode, ClassId>> parents = std::move(classes_[id].parents);
  classes_[id].parents.clear();
  std::unordered_map<ENode, ClassId, ENodeHash> seen;
  for (auto& [node, owner] : parents) {
    memo_.erase(node);
    ENode now = canonical(node);
    if (auto it = memo_.find(now); it != memo_.end()) merge(owner, it->second);
    const ClassId leader = find(owner);
    memo_[now] = leader;
    Facts& facts = classes_[leader].facts;
    if (!facts.is_constant && facts_of(now).is_constant) {
      facts.is_constant = true;
      pending_.push_back(leader);
    }
    seen.insert_or_assign(std::move(now), leader);
  }
  EClass& cls = classes_[find(id)];
  for (auto& [node, owner] : seen) cls.parents.emplace_back(node, find(owner));
}

void EGraph::rebuild() {
  while (!pending_.empty()) {
    std::vector<ClassId> now = std::move(pending_);
    pending_.clear();
    for (ClassId& c : now) c = find(c);
    std::ranges::sort(now);
    now.erase(std::unique(now.begin(), now.end()), now.end());
    for (ClassId c : now) repair(find(c));
  }
  sort_nodes();
}

// Nodes of each class by canonical sources, each once, oldest first.
void EGraph::sort_nodes() {
  for (EClass& cls : classes_) {
    std::vector<size_t> order(cls.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](size_t i) { return cls.births[i]; });
    std::vector<ENode> nodes;
    std::vector<uint64_t> births;
    for (size_t i : order) {
      ENode node = canonical(std::move(cls.nodes[i]));
      if (std::ranges::find(nodes, node) != nodes.end()) continue;
      nodes.push_back(std::move(node));
      births.push_back(cls.births[i]);
    }
    cls.nodes = std::move(nodes);
    cls.births = std::move(births);
  }
}

std::vector<ClassId> EGraph::classes() const {
  std::vector<ClassId> list;
  for (ClassId id = 0; id < leader_.size(); ++id)
    if (leader_[id] == id) list.push_back(id);
  return list;
}

const ENode* EGraph::node_of(ClassId id, EOp op) const {
  for (const ENode& node : at(id).nodes)
    if (node.op == op) return &node;
  return nullptr;
}

}  // namespace smelt::egraph
