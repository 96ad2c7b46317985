#include "graph/rewrite.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/ensure.h"
#include "base/options.h"
#include "graph/text.h"

namespace smelt {

using Kind = pattern::PatNode::Kind;

RuleSet::RuleSet(std::string name, std::vector<Rule> rules)
    : name_(std::move(name)), rules_(std::move(rules)), by_op_(256) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const pattern::PatNode& left = *rules_[i].left.get();
    for (size_t op = 0; op < by_op_.size(); ++op)
      if (left.kind != Kind::op || static_cast<size_t>(left.op) == op) by_op_[op].push_back(static_cast<uint16_t>(i));
  }
}

RuleSet operator+(const RuleSet& a, const RuleSet& b) {
  std::vector<Rule> rules = a.rules_;
  rules.insert(rules.end(), b.rules_.begin(), b.rules_.end());
  return RuleSet(a.name_ + " + " + b.name_, std::move(rules));
}

Ref RewriteMemory::find(Ref node) const {
  const Shard& shard = shards_[(node->key >> 20) % kShards];
  std::lock_guard lock(shard.mutex);
  const Ref* known = shard.results.find(node);
  return known ? *known : Ref();
}

void RewriteMemory::store(Ref node, Ref result) {
  Shard& shard = shards_[(node->key >> 20) % kShards];
  std::lock_guard lock(shard.mutex);
  shard.results.set(node, result);
}

Ref apply_rule(const Rule& rule, Ref node) {
  Match match;
  if (!matches(rule.left, node, match)) return Ref();
  if (rule.condition && !(*rule.condition)(match)) return Ref();
  Ref result = rule.right.pat ? instantiate(*rule.right.pat, match, node->dtype) : rule.right.code(node, match);
  if (!result || result == node) return Ref();
  ENSURE(result->dtype == node->dtype, "rule " + rule.name + " changed the dtype");
  return result;
}

namespace {

thread_local RewriteWatch* watch = nullptr;  // the innermost one

}  // namespace

RewriteWatch::RewriteWatch(See see) : see_(std::move(see)), outer_(std::exchange(watch, this)) {}
RewriteWatch::~RewriteWatch() { watch = outer_; }

namespace {

// Counts steps and remembers the last rules that fired, for the message about a loop.
// Shows each with DEBUG=6.
class Budget {
 public:
  Budget(const RuleSet& rules, std::string_view name) : rules_(rules), name_(name), shows_rules_(debug(6)) {}

  void spend(const Rule& rule, Ref before, Ref after) {
    if (shows_rules_)
      std::fprintf(stderr, "%s: %s: %s -> %s\n", std::string(name_).c_str(), rule.name.c_str(),
                   to_infix(before).c_str(), to_infix(after).c_str());
    if (watch) watch->see(rule, before, after);
    recent_[fired_++ % recent_.size()] = &rule;
    if (fired_ < kSteps) return;
    std::string last;
    for (const Rule* r : recent_) last += " " + r->name;
    ENSURE(false, std::string(name_) + ": rules of " + rules_.name() + " do not come to an end; the last were" + last);
  }

 private:
  static constexpr size_t kSteps = 5'000'000;
  const RuleSet& rules_;
  std::string_view name_;
  bool shows_rules_;
  size_t fired_ = 0;
  std::array<const Rule*, 8> recent_{};
};

Ref apply_first(const RuleSet& rules, Ref node, Budget& budget) {
  if (!node->shape.empty()) return Ref();
  for (uint16_t i : rules.for_op(node->op)) {
    const Rule& rule = rules.rules()[i];
    if (Ref result = apply_rule(rule, node)) {
      budget.spend(rule, node, result);
      return result;
    }
  }
  return Ref();
}

// One node on the way: `now` is what it has become so far.
struct Visit {
  Ref original, now;
};

// Looks up the sources of `visit`; the first that is not done yet, or null.
Ref missing_source(const Visit& visit, const RewriteMemory& memory, Refs& done) {
  done.clear();
  if (visit.now->op == Op::Range) {
    done = visit.now->src;
    return Ref();
  }
  for (Ref s : visit.now->src) {
    Ref result = memory.find(s);
    if (!result) return s;
    done.push_back(result);
  }
  return Ref();
}

Ref rewrite_with(RewriteMemory& memory, Ref root, const RuleSet& rules, std::string_view name) {
  if (Ref known = memory.find(root)) return known;
  Budget budget(rules, name);
  std::vector<Visit> stack{{root, root}};
  Refs done;
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (Ref known = memory.find(visit.now)) {
      memory.store(visit.original, known);
      stack.pop_back();
      continue;
    }
    if (Ref source = missing_source(visit, memory, done)) {
      stack.push_back({source, source});
      continue;
    }
    Ref rebuilt = with_sources(visit.now, done);
    if (!(rebuilt == visit.now)) {
      visit.now = rebuilt;
      continue;
    }
    if (Ref result = apply_first(rules, rebuilt, budget)) {
      visit.now = result;
      continue;
    }
    memory.store(visit.now, visit.now);
    memory.store(visit.original, visit.now);
    stack.pop_back();
  }
  return memory.find(root);
}

}  // namespace

Ref rewrite(Ref root, const RuleSet& rules, std::string_view name, RewriteMemory& memory) {
  return rewrite_with(watch ? watch->instead_of(memory) : memory, root, rules, name);
}

Ref rewrite(Ref root, const RuleSet& rules, std::string_view name) {
  RewriteMemory memory;
  return rewrite_with(memory, root, rules, name);
}

}  // namespace smelt
