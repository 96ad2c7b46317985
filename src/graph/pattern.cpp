#include "graph/pattern.h"

#include <mutex>

#include "base/ensure.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace pattern {
namespace {

// A name has one number in the whole process, so that rule sets can be added up.
int id_of(const std::string& name) {
  static std::mutex mutex;
  static std::vector<std::string> names;
  std::lock_guard lock(mutex);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<int>(i);
  ENSURE(names.size() < Match::kVariables, "patterns have too many names; use those that others use");
  names.push_back(name);
  return static_cast<int>(names.size()) - 1;
}

Pat named(PatNode::Kind kind, Domain domain, std::string name) {
  int id = id_of(name);
  return Pat(std::make_shared<PatNode>(PatNode{.kind = kind, .domain = domain, .id = id, .name = std::move(name)}));
}

Pat wrapped(PatNode::Kind kind, Pat x) {
  return Pat(std::make_shared<PatNode>(PatNode{.kind = kind, .src = {std::move(x)}}));
}

}  // namespace

Pat::Pat(int64_t literal)
    : node_(std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::literal, .value = literal})) {}

Pat any(std::string name) { return named(PatNode::Kind::variable, Domain::any, std::move(name)); }
Pat integer(std::string name) { return named(PatNode::Kind::variable, Domain::integer, std::move(name)); }
Pat narrow(std::string name) { return named(PatNode::Kind::variable, Domain::narrow, std::move(name)); }
Pat index(std::string name) { return named(PatNode::Kind::variable, Domain::index, std::move(name)); }
Pat boolean(std::string name) { return named(PatNode::Kind::variable, Domain::boolean, std::move(name)); }
Pat floating(std::string name) { return named(PatNode::Kind::variable, Domain::floating, std::move(name)); }
Pat constant(std::string name) { return named(PatNode::Kind::constant, Domain::any, std::move(name)); }

Pat fold(Pat x) { return wrapped(PatNode::Kind::fold, std::move(x)); }
Pat min_of(Pat x) { return wrapped(PatNode::Kind::min, std::move(x)); }
Pat max_of(Pat x) { return wrapped(PatNode::Kind::max, std::move(x)); }

Pat op(Op op, std::vector<Pat> src) {
  return Pat(std::make_shared<PatNode>(PatNode{.kind = PatNode::Kind::op, .op = op, .src = std::move(src)}));
}
Pat operator+(Pat x, Pat y) { return op(Op::Add, {x, y}); }
Pat operator-(Pat x, Pat y) { return op(Op::Sub, {x, y}); }
Pat operator*(Pat x, Pat y) { return op(Op::Mul, {x, y}); }
Pat operator/(Pat x, Pat y) { return op(Op::Div, {x, y}); }
Pat operator%(Pat x, Pat y) { return op(Op::Mod, {x, y}); }
Pat operator&(Pat x, Pat y) { return op(Op::And, {x, y}); }
Pat operator|(Pat x, Pat y) { return op(Op::Or, {x, y}); }
Pat operator<<(Pat x, Pat y) { return op(Op::Shl, {x, y}); }
Pat operator>>(Pat x, Pat y) { return op(Op::Shr, {x, y}); }
Pat operator-(Pat x) { return op(Op::Neg, {x}); }
Pat negation(Pat x) { return op(Op::Not, {x}); }
Pat lt(Pat x, Pat y) { return op(Op::Lt, {x, y}); }
Pat eq(Pat x, Pat y) { return op(Op::Eq, {x, y}); }
Pat max(Pat x, Pat y) { return op(Op::Max, {x, y}); }
Pat min(Pat x, Pat y) { return op(Op::Min, {x, y}); }
Pat where(Pat condition, Pat x, Pat y) { return op(Op::Where, {condition, x, y}); }

}  // namespace pattern

using pattern::Domain;
using pattern::Pat;
using pattern::PatNode;
using Kind = PatNode::Kind;

bool in_domain(Domain domain, DType dtype) {
  switch (domain) {
    case Domain::any: return true;
    case Domain::integer: return is_int(dtype);
    case Domain::narrow: return is_int(dtype) && dtype != DType::I64;
    case Domain::index: return dtype == DType::I64;
    case Domain::boolean: return dtype == DType::Bool;
    case Domain::floating: return is_float(dtype);
  }
  return false;
}

namespace {

bool is_literal(Ref node, int64_t value) {
  if (node->op != Op::Const) return false;
  return is_float(node->dtype) ? node->arg.f == static_cast<double>(value) : node->arg.i == value;
}

bool matches_node(const PatNode& pat, Ref node, Match& match) {
  switch (pat.kind) {
    case Kind::variable: return in_domain(pat.domain, node->dtype) && match.bind(pat.id, node);
    case Kind::constant: return const_int(node).has_value() && match.bind(pat.id, node);
    case Kind::literal: return is_literal(node, pat.value);
    case Kind::op: break;
    default: return false;
  }
  if (node->op != pat.op || node->src.size() != pat.src.size()) return false;
  for (size_t i = 0; i < pat.src.size(); ++i)
    if (!matches_node(*pat.src[i].get(), node->src[i], match)) return false;
  return true;
}

// A number worked out from a match, with the dtype of the constants in it.
struct Number {
  int64_t value;
  DType dtype;
  bool exact = true;  // no narrow integer wrapped on the way
};

std::optional<Number> number_of(const PatNode& pat, const Match& match, DType literal_dtype);

DType dtype_of(const PatNode& pat, const Match& match, DType otherwise) {
  if (pat.id >= 0) return match.at(pat.id)->dtype;
  for (const Pat& s : pat.src)
    if (DType found = dtype_of(*s.get(), match, DType::Void); found != DType::Void) return found;
  return otherwise;
}

std::optional<Number> operation(const PatNode& pat, const Match& match, DType literal_dtype) {
  DType dtype = dtype_of(pat, match, literal_dtype);
  auto x = number_of(*pat.src[0].get(), match, dtype), y = number_of(*pat.src[1].get(), match, dtype);
  if (!x || !y) return std::nullopt;
  auto result = apply_binary(pat.op, dtype, {.i = x->value}, {.i = y->value});
  if (!result) return std::nullopt;
  auto unwrapped = apply_binary(pat.op, DType::I64, {.i = x->value}, {.i = y->value});
  return Number{result->i, dtype, x->exact && y->exact && unwrapped && unwrapped->i == result->i};
}

std::optional<Number> number_of(const PatNode& pat, const Match& match, DType literal_dtype) {
  switch (pat.kind) {
    case Kind::literal: return Number{pat.value, literal_dtype};
    case Kind::variable:
    case Kind::constant: {
      Ref node = match.at(pat.id);
      auto value = const_int(node);
      return value ? std::optional(Number{*value, node->dtype}) : std::nullopt;
    }
    case Kind::min:
    case Kind::max: {
      Ref node = match[pat.src[0]];
      return Number{pat.kind == Kind::min ? node->min : node->max, DType::I64};
    }
    case Kind::fold: return number_of(*pat.src[0].get(), match, literal_dtype);
    case Kind::op: return operation(pat, match, literal_dtype);
  }
  return std::nullopt;
}

bool compares(Op op) { return op == Op::Lt || op == Op::Eq; }

Ref instantiate_node(const PatNode& pat, const Match& match, DType dtype) {
  switch (pat.kind) {
    case Kind::variable:
    case Kind::constant: return match.at(pat.id);
    case Kind::literal: return constant_of({.i = pat.value, .f = static_cast<double>(pat.value)}, dtype);
    case Kind::op: break;
    default: {
      auto number = number_of(pat, match, dtype);
      return number ? smelt::constant(number->value, number->dtype) : Ref();
    }
  }
  if (compares(pat.op)) dtype = dtype_of(pat, match, dtype);
  Refs src;
  for (size_t i = 0; i < pat.src.size(); ++i) {
    bool condition = pat.op == Op::Where && i == 0;
    src.push_back(instantiate_node(*pat.src[i].get(), match, condition ? DType::Bool : dtype));
    if (!src.back()) return Ref();
  }
  DType result = compares(pat.op) ? DType::Bool : src.back()->dtype;
  return make(pat.op, result, std::move(src));
}

Cond compare(Pat x, Pat y, bool (*test)(int64_t, int64_t)) {
  return Cond([x, y, test](const Match& match) {
    auto a = number_of(*x.get(), match, DType::I64), b = number_of(*y.get(), match, DType::I64);
    return a && b && test(a->value, b->value);
  });
}

}  // namespace

bool matches(const Pat& pat, Ref node, Match& match) { return matches_node(*pat.get(), node, match); }

Ref instantiate(const Pat& pat, const Match& match, DType dtype) { return instantiate_node(*pat.get(), match, dtype); }

bool Match::bind(int id, Ref node) {
  Ref& slot = bound_[static_cast<size_t>(id)];
  if (slot && !(slot == node)) return false;
  slot = node;
  return true;
}

namespace pattern {
Cond operator<(Pat x, Pat y) {
  return compare(x, y, [](int64_t a, int64_t b) { return a < b; });
}
Cond operator<=(Pat x, Pat y) {
  return compare(x, y, [](int64_t a, int64_t b) { return a <= b; });
}
Cond operator>(Pat x, Pat y) {
  return compare(x, y, [](int64_t a, int64_t b) { return a > b; });
}
Cond operator>=(Pat x, Pat y) {
  return compare(x, y, [](int64_t a, int64_t b) { return a >= b; });
}
Cond operator==(Pat x, Pat y) {
  return compare(x, y, [](int64_t a, int64_t b) { return a == b; });
}
Cond fits(Pat x) {
  return Cond([x](const Match& match) {
    auto number = number_of(*x.get(), match, DType::I64);
    return number && number->exact;
  });
}
}  // namespace pattern

Cond operator&&(Cond x, Cond y) {
  return Cond([x, y](const Match& match) { return x(match) && y(match); });
}
Cond operator||(Cond x, Cond y) {
  return Cond([x, y](const Match& match) { return x(match) || y(match); });
}

}  // namespace smelt
