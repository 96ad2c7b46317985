#include "graph/rules_algebra.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/ensure.h"
#include "graph/index_sum.h"
#include "graph/node_map.h"
#include "graph/operands.h"
#include "graph/rules_index.h"
#include "graph/scalar_math.h"
#include "graph/views.h"

namespace smelt {
namespace {

// --- right sides as code

Ref fold_constants(Ref root, const Match&) {
  std::array<Scalar, 3> values;
  for (size_t i = 0; i < root->src.size(); ++i) {
    auto value = scalar_of(root->src[i]);
    if (!value) return Ref();
    values[i] = *value;
  }
  auto result = apply_op(*root, std::span(values).first(root->src.size()));
  return result ? constant_of(*result, root->dtype) : Ref();
}

bool has_bounds(Ref node) { return is_int(node->dtype) || node->dtype == DType::Bool; }

Ref only_value(Ref root, const Match&) {
  return has_bounds(root) && root->min == root->max ? constant(root->min, root->dtype) : Ref();
}

Ref less_by_bounds(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  if (!has_bounds(x)) return Ref();
  if (x->max < y->min) return constant(1, DType::Bool);
  return x->min >= y->max ? constant(0, DType::Bool) : Ref();
}

Ref equal_by_bounds(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  if (!has_bounds(x)) return Ref();
  if (x == y) return constant(1, DType::Bool);
  return x->max < y->min || y->max < x->min ? constant(0, DType::Bool) : Ref();
}

// Whether every value of x is kept by a cast to `to`.
bool keeps_value(Ref x, DType to) {
  if (has_bounds(x) && to == DType::Bool) return x->dtype == DType::Bool;
  if (has_bounds(x) && is_int(to)) return x->min >= lowest_int(to) && x->max <= highest_int(to);
  if (!is_float(x->dtype) || !is_float(to)) return false;
  return x->dtype == to || to == DType::F64 || (to == DType::F32 && x->dtype != DType::F64);
}

Ref cast_of_cast(Ref root, const Match&) {
  const Ref inner = operand_of(root);
  if (inner->op != Op::Cast || !keeps_value(operand_of(inner), inner->dtype)) return Ref();
  return cast(operand_of(inner), root->dtype);
}

Ref same_type(Ref root, const Match&) { return root->dtype == operand_of(root)->dtype ? operand_of(root) : Ref(); }

Ref bitcast_of_bitcast(Ref root, const Match&) {
  const Ref inner = operand_of(root);
  if (inner->op != Op::Bitcast || size_of(operand_of(inner)->dtype) != size_of(root->dtype)) return Ref();
  return bitcast(operand_of(inner), root->dtype);
}

// The bits that a value of 0..max may have set.
int64_t bits_up_to(int64_t max) {
  auto value = static_cast<uint64_t>(max);
  return static_cast<int64_t>(value ? ~uint64_t{0} >> std::countl_zero(value) : 0);
}

Ref mask_by_bounds(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  auto mask = const_int(y);
  if (!has_bounds(x) || !mask || x->min < 0) return Ref();
  int64_t possible = bits_up_to(x->max);
  if ((possible & ~*mask) == 0) return x;
  return (possible & *mask) == 0 ? constant(0, root->dtype) : Ref();
}

Ref modulo_by_bounds(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  return has_bounds(x) && x->min >= 0 && x->max < y->min ? x : Ref();
}

// i64 shifts and masks are index arithmetic: written as products and quotients they meet the rules
// of sums.
Ref shift_as_product(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  auto places = const_int(y);
  if (!places || *places < 0 || *places > 62) return Ref();
  int64_t power = int64_t{1} << *places;
  return root->op == Op::Shl ? x * power : x / power;
}

Ref mask_as_modulo(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  auto mask = const_int(y);
  if (!mask || *mask <= 0 || *mask == INT64_MAX || (*mask & (*mask + 1)) != 0) return Ref();
  return x % (*mask + 1);
}

Ref condition_itself(Ref root, const Match&) { return root->dtype == DType::Bool ? operand_of(root) : Ref(); }

Ref constant_to_the_right(Ref root, const Match&) {
  const auto [x, y] = BinaryView(root);
  return is_const(x) && !is_const(y) ? with_sources(root, {y, x}) : Ref();
}

}  // namespace

const RuleSet& algebra() {
  using namespace pattern;
  static const Pat x = any("x"), y = any("y"), z = any("z");
  static const Pat i = integer("i"), j = integer("j"), w = narrow("w"), n = index("n");
  static const Pat b = boolean("b"), c = boolean("c");
  static const Pat c0 = constant("c0"), c1 = constant("c1");
  static const Pat any_cast = op(Op::Cast, {x}), any_bitcast = op(Op::Bitcast, {x}), any_lut = op(Op::Lut, {x});
  // clang-format off
  static const RuleSet rules{"algebra", {
      // Constants and values that bounds pin down.
      {"fold-neg",       -x,                      fold_constants},
      {"fold-not",       negation(x),             fold_constants},
      {"fold-exp2",      op(Op::Exp2, {x}),       fold_constants},
      {"fold-log2",      op(Op::Log2, {x}),       fold_constants},
      {"fold-sqrt",      op(Op::Sqrt, {x}),       fold_constants},
      {"fold-floor",     op(Op::Floor, {x}),      fold_constants},
      {"fold-cast",      any_cast,                fold_constants},
      {"fold-bitcast",   any_bitcast,             fold_constants},
      {"fold-lut",       any_lut,                 fold_constants},
      {"fold-add",       x + y,                   fold_constants},
      {"fold-sub",       x - y,                   fold_constants},
      {"fold-mul",       x * y,                   fold_constants},
      {"fold-div",       x / y,                   fold_constants},
      {"fold-mod",       x % y,                   fold_constants},
      {"fold-max",       max(x, y),               fold_constants},
      {"fold-min",       min(x, y),               fold_constants},
      {"fold-and",       x & y,                   fold_constants},
      {"fold-or",        x | y,                   fold_constants},
      {"fold-xor",       op(Op::Xor, {x, y}),     fold_constants},
      {"fold-shl",       x << y,                  fold_constants},
      {"fold-shr",       x >> y,                  fold_constants},
      {"fold-lt",        lt(x, y),                fold_constants},
      {"fold-eq",        eq(x, y),                fold_constants},
      {"only-neg",       -i,                      only_value},
      {"only-cast",      any_cast,                only_value},
      {"only-lut",       any_lut,                 only_value},
      {"only-add",       i + j,                   only_value},
      {"only-sub",       i - j,                   only_value},
      {"only-mul",       i * j,                   only_value},
      {"only-div",       i / j,                   only_value},
      {"only-mod",       i % j,                   only_value},
      {"only-max",       max(i, j),               only_value},
      {"only-min",       min(i, j),               only_value},
      {"only-and",       i & j,                   only_value},
      {"only-or",        i | j,                   only_value},
      {"only-shr",       i >> j,                  only_value},
      {"bounds-lt",      lt(x, y),                less_by_bounds},
      {"bounds-eq",      eq(x, y),                equal_by_bounds},

      // Constants on the right, once.
      {"swap-add",       x + y,                   constant_to_the_right},
      {"swap-mul",       x * y,                   constant_to_the_right},
      {"swap-max",       max(x, y),               constant_to_the_right},
      {"swap-min",       min(x, y),               constant_to_the_right},
      {"swap-and",       x & y,                   constant_to_the_right},
      {"swap-or",        x | y,                   constant_to_the_right},
      {"swap-xor",       op(Op::Xor, {x, y}),     constant_to_the_right},
      {"swap-eq",        eq(x, y),                constant_to_the_right},

      // All numbers.
      {"add-zero",       x + 0,                   x},
      {"sub-zero",       x - 0,                   x},
      {"mul-one",        x * 1,                   x},
      {"div-one",        x / 1,                   x},
      {"neg-neg",        -(-x),                   x},
      {"max-same",       max(x, x),               x},
      {"min-same",       min(x, x),               x},

      // Integers of every width, wrapping included. Sums of i64 are collected by the rules of
      // rules_index.h.
      {"mul-zero",       i * 0,                   0},
      {"sub-self",       i - i,                   0},
      {"mod-one",        i % 1,                   0},
      {"add-const",      (w + c0) + c1,           w + fold(c0 + c1)},
      {"sub-const",      w - c0,                  w + fold(0 - c0),   fits(0 - c0)},
      {"mul-const",      (w * c0) * c1,           w * fold(c0 * c1)},
      {"div-div",        (i / c0) / c1,           i / fold(c0 * c1),  c0 > 0 && c1 > 0 && fits(c0 * c1)},
      {"mod-mod",        (i % c0) % c1,           i % c1,             c0 > 0 && c1 > 0 && c0 % c1 == 0},
      {"mod-small",      i % j,                   modulo_by_bounds},
      {"max-left",       max(i, j),               i,                  min_of(i) >= max_of(j)},
      {"max-right",      max(i, j),               j,                  min_of(j) >= max_of(i)},
      {"min-left",       min(i, j),               i,                  max_of(i) <= min_of(j)},
      {"min-right",      min(i, j),               j,                  max_of(j) <= min_of(i)},
      {"max-max",        max(max(i, c0), c1),     max(i, fold(max(c0, c1)))},
      {"min-min",        min(min(i, c0), c1),     min(i, fold(min(c0, c1)))},

      // Bits.
      {"shl-zero",       i << 0,                  i},
      {"shr-zero",       i >> 0,                  i},
      {"shr-shr",        (i >> c0) >> c1,         i >> fold(c0 + c1), c0 >= 0 && c1 >= 0 && c0 + c1 < 8},
      {"and-zero",       i & 0,                   0},
      {"and-same",       x & x,                   x},
      {"and-and",        (i & c0) & c1,           i & fold(c0 & c1)},
      {"and-range",      i & j,                   mask_by_bounds},
      {"or-zero",        i | 0,                   i},
      {"or-same",        x | x,                   x},
      {"xor-zero",       op(Op::Xor, {i, 0}),     i},
      {"shl-index",      n << c0,                 shift_as_product},
      {"shr-index",      n >> c0,                 shift_as_product},
      {"and-index",      n & c0,                  mask_as_modulo},

      // Truth values.
      {"and-true",       b & 1,                   b},
      {"and-false",      b & 0,                   0},
      {"or-true",        b | 1,                   1},
      {"or-false",       b | 0,                   b},
      {"eq-true",        eq(b, 1),                b},
      {"eq-false",       eq(b, 0),                negation(b)},
      {"not-not",        negation(negation(x)),   x},
      {"and-not",        b & negation(b),         0},
      {"or-not",         b | negation(b),         1},

      // Choices.
      {"where-true",     where(1, x, y),          x},
      {"where-false",    where(0, x, y),          y},
      {"where-same",     where(c, x, x),          x},
      {"where-not",      where(negation(c), x, y),       where(c, y, x)},
      {"where-then",     where(c, where(c, x, y), z),    where(c, x, z)},
      {"where-else",     where(c, x, where(c, y, z)),    where(c, x, z)},
      {"where-bool",     where(c, 1, 0),          condition_itself},

      // Conversions.
      {"cast-same",      any_cast,                same_type},
      {"cast-cast",      any_cast,                cast_of_cast},
      {"bitcast-same",   any_bitcast,             same_type},
      {"bitcast-twice",  any_bitcast,             bitcast_of_bitcast},
  }};
  // clang-format on
  return rules;
}

// --- simplify and substitute

namespace {

const RuleSet& all_rules() {
  static const RuleSet rules = index_rules() + algebra();  // a sum is collected in one step
  return rules;
}

}  // namespace

Ref simplify(Ref root) {
  static RewriteMemory memory;
  return rewrite(root, all_rules(), "simplify", memory);
}

namespace {

// A node below the root of a substitution: what it has become, and whether anything in it was
// replaced.
struct Replaced {
  Ref node;
  bool changed;
};

Replaced replaced_node(Ref node, Refs src, bool changed) {
  if (changed) return {simplify(with_sources(node, std::move(src))), true};
  return {node->op == Op::Range ? node : simplify(node), false};
}

// Where the ranges that a node runs over begin among its sources.
size_t first_own_range(Ref node) {
  return node->op == Op::Store || is_reduce(node->op) ? node->src.size() - own_ranges(node).size() : node->src.size();
}

class Substitution {
 public:
  explicit Substitution(const Replacements& replacements) {
    for (const auto& [from, to] : replacements) done_.set(from, {simplify(to), true});
  }
  Substitution(Ref range, const Refs& by, Ref index) : Substitution(Replacements{{range, index}}) {
    range_ = range, by_ = by;
  }

  Ref run(Ref root) {
    std::vector<Ref> stack{root};
    while (!stack.empty()) {
      const Ref node = stack.back();
      if (done_.contains(node) || replace(node, stack)) stack.pop_back();
    }
    return done_.find(root)->node;
  }

 private:
  // False if there are sources that come first: they are on the stack then.
  bool replace(Ref node, std::vector<Ref>& stack) {
    const size_t before = stack.size(), first_own = range_ ? first_own_range(node) : node->src.size();
    Refs src;
    src.reserve(node->src.size() + by_.size());
    bool changed = false;
    for (size_t i = 0; i < node->src.size(); ++i) {
      const Ref s = node->src[i];
      if (i >= first_own && s == range_) {
        src.insert(src.end(), by_.begin(), by_.end());
        changed = true;
      } else if (const Replaced* known = done_.find(s)) {
        src.push_back(known->node);
        changed = changed || known->changed;
      } else {
        stack.push_back(s);
      }
    }
    if (stack.size() > before) return false;
    done_.set(node, replaced_node(node, std::move(src), changed));
    return true;
  }

  NodeMap<Replaced> done_;
  Ref range_;  // none, or what stores and reductions run over `by_` in place of
  Refs by_;
};

}  // namespace

Ref substitute(Ref root, const Replacements& replacements) { return Substitution(replacements).run(root); }

Ref replace_range(Ref root, Ref range, const Refs& by, Ref index) { return Substitution(range, by, index).run(root); }

std::optional<int64_t> stride(Ref expr, Ref range) {
  while (expr->op == Op::Cast && has_bounds(operand_of(expr)) && keeps_value(operand_of(expr), expr->dtype))
    expr = operand_of(expr);
  if (expr->dtype != DType::I64) return depends_on(expr, range) ? std::nullopt : std::optional<int64_t>(0);
  auto sum = index_sum(expr);
  if (!sum) return std::nullopt;
  int64_t step = 0;
  for (const IndexTerm& t : sum->terms) {
    if (t.product == range)
      step = t.times;
    else if (depends_on(t.product, range))
      return std::nullopt;
  }
  return step;
}

bool depends_on(Ref expr, Ref node) {
  if (innermost_range(expr) < innermost_range(node)) return false;
  std::vector<Ref> stack{expr};
  NodeSet seen;
  seen.insert(expr);
  while (!stack.empty()) {
    Ref at = stack.back();
    stack.pop_back();
    if (at == node) return true;
    for (Ref s : at->src)
      if (seen.insert(s)) stack.push_back(s);
  }
  return false;
}

int64_t known_divisor(Ref size) {
  if (const auto n = const_int(size)) return *n;
  if (size->op == Op::Mul) {
    const auto [x, y] = BinaryView(size);
    __int128 product = static_cast<__int128>(known_divisor(x)) * known_divisor(y);
    return product > (int64_t{1} << 40) ? 1 : static_cast<int64_t>(product);
  }
  // The smaller or greater of two numbers is one of them.
  if (size->op == Op::Add || size->op == Op::Min || size->op == Op::Max)
    return std::gcd(known_divisor(BinaryView(size).x), known_divisor(BinaryView(size).y));
  return 1;
}

Refs ranges_of(Ref expr) {
  Refs ranges;
  for (Ref node : toposort(expr))
    if (node->op == Op::Range) ranges.push_back(node);
  return ranges;
}

}  // namespace smelt
