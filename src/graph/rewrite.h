// Rewriting: rules as runtime values, one a line, and the driver that applies them until none fits.
//
//   const Pat x = any("x"), c0 = constant("c0"), c1 = constant("c1");
//   RuleSet rules{"example", {
//       {"add-zero",  x + 0,          x},
//       {"add-const", (x + c0) + c1,  x + fold(c0 + c1)},
//       {"div-div",   (x / c0) / c1,  x / fold(c0 * c1),  c0 > 0 && c1 > 0 && fits(c0 * c1)},
//       {"fold",      x,              fold_constants},   // code: Ref(Ref root, const Match&)
//   }};
//   g = rewrite(g, rules, "simplify");
//
// A pattern matches scalars only: a node with a shape is rebuilt with its new sources and otherwise
// left alone.
#pragma once

#include <concepts>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "graph/node_map.h"
#include "graph/pattern.h"

namespace smelt {

// A right side as code: the replacement, or a null Ref if the rule does not apply.
using RuleCode = std::function<Ref(Ref root, const Match& match)>;

struct RightSide {
  RightSide(pattern::Pat p) : pat(std::move(p)) {}
  RightSide(int literal) : pat(pattern::Pat(literal)) {}
  template <class F>
    requires std::invocable<F, Ref, const Match&>
  RightSide(F f) : code(std::move(f)) {}

  std::optional<pattern::Pat> pat;
  RuleCode code;
};

struct Rule {
  std::string name;
  pattern::Pat left;
  RightSide right;
  std::optional<Cond> condition = std::nullopt;
};

// Rules by the op of their left side; in each the order of writing, first match wins.
class RuleSet {
 public:
  RuleSet(std::string name, std::vector<Rule> rules);
  const std::string& name() const { return name_; }
  const std::vector<Rule>& rules() const { return rules_; }

  // Rules that may apply to a node of this op, as indices into rules().
  const std::vector<uint16_t>& for_op(Op op) const { return by_op_[static_cast<size_t>(op)]; }

  friend RuleSet operator+(const RuleSet& a, const RuleSet& b);

 private:
  std::string name_;
  std::vector<Rule> rules_;
  std::vector<std::vector<uint16_t>> by_op_;
};

// Results of earlier rewrites with one rule set; may be kept for the life of the process.
// Thread-safe.
class RewriteMemory {
 public:
  Ref find(Ref node) const;  // null if unknown
  void store(Ref node, Ref result);

 private:
  static constexpr size_t kShards = 16;
  struct Shard {
    mutable std::mutex mutex;
    NodeMap<Ref> results;
  };
  Shard shards_[kShards];
};

// Applies the rules everywhere below root, sources first, until none applies; ranges and their
// sizes stay as they are. REQUIRES: the rules come to an end. Past a budget of steps it stops the
// process and names the last rules that fired.
Ref rewrite(Ref root, const RuleSet& rules, std::string_view name);
Ref rewrite(Ref root, const RuleSet& rules, std::string_view name, RewriteMemory& memory);

// Sees every rule that fires on this thread while it lives; of several the innermost one sees them. What earlier
// rewrites have left in a RewriteMemory is not used meanwhile, so that none is missed: rewriting takes longer.
// REQUIRES: the memories in use outlive it.
class RewriteWatch {
 public:
  using See = std::function<void(const Rule& rule, Ref before, Ref after)>;
  explicit RewriteWatch(See see);
  ~RewriteWatch();
  RewriteWatch(const RewriteWatch&) = delete;
  RewriteWatch& operator=(const RewriteWatch&) = delete;

  void see(const Rule& rule, Ref before, Ref after) const { see_(rule, before, after); }
  RewriteMemory& instead_of(const RewriteMemory& memory) { return memories_[&memory]; }
  void forget() { memories_.clear(); }  // what was seen is seen again when it happens again

 private:
  const See see_;
  std::unordered_map<const RewriteMemory*, RewriteMemory> memories_;
  RewriteWatch* const outer_;
};

// Tries one rule on one node: the replacement, or null.
Ref apply_rule(const Rule& rule, Ref node);

}  // namespace smelt
