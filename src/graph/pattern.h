// Patterns: scalar expressions with variables, as ordinary runtime values. Rules (rewrite.h) are
// made of them.
//
//   const Pat x = any("x"), c0 = constant("c0"), c1 = constant("c1");
//   (x / c0) / c1                          a left side
//   x / fold(c0 * c1)                      a right side: fold() is the constant
//   c0 > 0 && c1 > 0 && fits(c0 * c1)      a condition over what was matched
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/node.h"

namespace smelt {

namespace pattern {

// The values a variable of a pattern stands for; narrow integers wrap, an index is an i64.
enum class Domain : uint8_t { any, integer, narrow, index, boolean, floating };

struct PatNode;

// A pattern: a variable, a number, an op over patterns, or (right sides and conditions only)
// arithmetic on the numbers that were matched.
class Pat {
 public:
  Pat(int64_t literal);  // matches a constant of that value, integer or float
  Pat(int literal) : Pat(static_cast<int64_t>(literal)) {}
  explicit Pat(std::shared_ptr<const PatNode> node) : node_(std::move(node)) {}
  const PatNode* operator->() const { return node_.get(); }
  const PatNode* get() const { return node_.get(); }

 private:
  std::shared_ptr<const PatNode> node_;
};

struct PatNode {
  enum class Kind : uint8_t { variable, constant, literal, op, fold, min, max } kind;
  Domain domain = Domain::any;  // of a variable or constant
  int id = -1;                  // of a variable or constant: where its match is kept
  std::string name;
  int64_t value = 0;  // of a literal
  Op op = Op::Const;
  std::vector<Pat> src;  // of an op; of fold, min and max: the one operand
};

// A name stands for one variable wherever it is used.
Pat any(std::string name);      // anything
Pat integer(std::string name);  // an integer of any width, not bool
Pat narrow(std::string name);   // an integer that wraps: narrower than i64
Pat index(std::string name);    // an i64
Pat boolean(std::string name);
Pat floating(std::string name);
Pat constant(std::string name);  // an integer or bool constant

// The constant that x is; the rule does not apply where that is undefined (see apply_op).
Pat fold(Pat x);

Pat min_of(Pat x);  // bounds of what a variable matched; conditions only
Pat max_of(Pat x);

Pat op(Op op, std::vector<Pat> src);
Pat operator+(Pat x, Pat y);
Pat operator-(Pat x, Pat y);
Pat operator*(Pat x, Pat y);
Pat operator/(Pat x, Pat y);
Pat operator%(Pat x, Pat y);
Pat operator&(Pat x, Pat y);
Pat operator|(Pat x, Pat y);
Pat operator<<(Pat x, Pat y);
Pat operator>>(Pat x, Pat y);
Pat operator-(Pat x);
Pat negation(Pat x);  // Op::Not
Pat lt(Pat x, Pat y);
Pat eq(Pat x, Pat y);
Pat max(Pat x, Pat y);
Pat min(Pat x, Pat y);
Pat where(Pat condition, Pat x, Pat y);

}  // namespace pattern

// What a left side matched.
class Match {
 public:
  static constexpr size_t kVariables = 24;  // names of variables in the whole process
  Ref operator[](const pattern::Pat& variable) const { return bound_[static_cast<size_t>(variable->id)]; }
  Ref at(int id) const { return bound_[static_cast<size_t>(id)]; }
  bool bind(int id, Ref node);  // false if bound to another node already

 private:
  std::array<Ref, kVariables> bound_{};
};

// A condition on a match.
class Cond {
 public:
  using Test = std::function<bool(const Match&)>;
  explicit Cond(Test test) : test_(std::move(test)) {}
  bool operator()(const Match& match) const { return test_(match); }

 private:
  Test test_;
};

namespace pattern {
Cond operator<(Pat x, Pat y);
Cond operator<=(Pat x, Pat y);
Cond operator>(Pat x, Pat y);
Cond operator>=(Pat x, Pat y);
Cond operator==(Pat x, Pat y);
Cond fits(Pat x);  // x is defined, and does not wrap
}  // namespace pattern

Cond operator&&(Cond x, Cond y);
Cond operator||(Cond x, Cond y);

// Whether the node is one that the pattern describes; binds the variables.
bool matches(const pattern::Pat& pat, Ref node, Match& match);

// The node that a pattern stands for when its variables are bound; `dtype` is that of the numbers
// in it where no variable beside them says otherwise. Null where a fold is undefined.
Ref instantiate(const pattern::Pat& pat, const Match& match, DType dtype);

bool in_domain(pattern::Domain domain, DType dtype);

}  // namespace smelt
