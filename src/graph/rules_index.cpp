#include "graph/rules_index.h"

#include <algorithm>
#include <numeric>

#include "graph/index_sum.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/scalar_math.h"
#include "graph/views.h"

namespace smelt {
namespace {

// --- a product with one factor taken out

struct FactorOut {
  Ref factor;
  IndexSum rest;  // the other factors, times the term's number
  bool rest_may_be_negative;
};

// Every way to see `term` as a factor and the rest.
std::vector<FactorOut> factors_out(const IndexTerm& term) {
  Refs factors = factors_of(term.product);
  std::vector<FactorOut> ways;
  for (size_t k = 0; k < factors.size(); ++k) {
    Refs others = factors;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    bool negative = std::any_of(others.begin(), others.end(), [](Ref f) { return f->min < 0; });
    IndexSum rest{.constant = term.times};
    if (!others.empty()) rest = {.terms = {{product_of(std::move(others)), term.times}}};
    ways.push_back({factors[k], std::move(rest), negative});
  }
  return ways;
}

bool is_zero(const IndexSum& sum) { return sum.is_constant() && sum.constant == 0; }

// --- bounds of sums with symbolic sizes

constexpr int kDepth = 4;  // quotients within quotients that bounds look into

std::optional<IndexSum> greatest(const IndexSum& sum, int depth);
std::optional<IndexSum> greatest_quotient(const IndexSum& x, const IndexSum& divisor);

// What a factor never exceeds, as an expression of sizes: a range its size - 1.
std::optional<IndexSum> symbolic_max(Ref factor, int depth) {
  if (depth == 0) return std::nullopt;
  if (factor->op == Op::Div) {
    const BinaryView quotient(factor);
    auto x = index_sum(quotient.x), divisor = index_sum(quotient.y);
    auto most = x ? greatest(*x, depth - 1) : std::nullopt;
    return most && divisor ? greatest_quotient(*most, *divisor) : std::nullopt;
  }
  Ref size;
  if (factor->op == Op::Range) size = RangeView(factor).size;
  if (factor->op == Op::Mod) size = BinaryView(factor).y;
  if (!size) return std::nullopt;
  auto sum = index_sum(size);
  if (sum) sum->constant -= 1;
  return sum;
}

// A term with one factor at its symbolic maximum: 3 * S * i -> 3 * S * (N - 1), for i a range of
// size N.
std::optional<IndexSum> at_its_most(const IndexTerm& term, int depth) {
  for (const FactorOut& way : factors_out(term)) {
    auto most = way.rest_may_be_negative ? std::nullopt : symbolic_max(way.factor, depth);
    // The bounds of the node itself say a constant as well, unless sizes cancelled on the way to
    // it.
    bool says_more = most && (!most->is_constant() || !way.rest.is_constant() || most->constant < way.factor->max);
    if (says_more) return multiply(way.rest, *most);
  }
  return std::nullopt;
}

// An upper bound of the sum as an expression of sizes.
std::optional<IndexSum> greatest(const IndexSum& sum, int depth) {
  std::optional<IndexSum> total = IndexSum{.constant = sum.constant};
  for (const IndexTerm& t : sum.terms) {
    auto most = t.times > 0 ? at_its_most(t, depth) : std::nullopt;
    if (!most) {
      int64_t end = t.times > 0 ? t.product->max : t.product->min;
      if (end == INT64_MIN || end == INT64_MAX) return std::nullopt;
      most = multiply(IndexSum{.constant = t.times}, IndexSum{.constant = end});
    }
    total = most ? add(*total, *most) : std::nullopt;
    if (!total) return std::nullopt;
  }
  return total;
}

// A lower bound of the sum, with ranges counted down from their symbolic sizes.
int64_t least(IndexSum sum) {
  int64_t best = min_of(sum);
  for (int step = 0; step < 16; ++step) {
    bool changed = false;
    for (const IndexTerm& t : sum.terms) {
      if (t.times > 0) continue;
      auto lowest = at_its_most(t, kDepth);
      if (!lowest) continue;
      auto without = add(sum, IndexSum{.terms = {t}}, -1);
      auto replaced = without ? add(*without, *lowest) : std::nullopt;
      if (!replaced) return best;
      sum = *replaced;
      best = std::max(best, min_of(sum));
      changed = true;
      break;
    }
    if (!changed) break;
  }
  return best;
}

bool is_less(const IndexSum& a, const IndexSum& b) {
  auto difference = add(b, a, -1);
  return difference && least(*difference) >= 1;
}

// --- splitting a sum by a positive divisor

// A divisor is positive wherever the op is defined, so only a constant can be a wrong one.
bool may_divide(const IndexSum& sum) { return !sum.is_constant() || sum.constant >= 1; }

struct Split {
  IndexSum quotient, rest;  // sum = quotient * divisor + rest, term by term
};

Split split_by_number(const IndexSum& sum, int64_t divisor) {
  Split split;
  split.quotient.constant = floor_div(sum.constant, divisor);
  split.rest.constant = floor_mod(sum.constant, divisor);
  for (const IndexTerm& t : sum.terms) {
    if (t.times % divisor == 0) {
      split.quotient.terms.push_back({t.product, t.times / divisor});
    } else {
      split.rest.terms.push_back(t);
    }
  }
  return split;
}

std::optional<Split> split_by(const IndexSum& sum, const IndexSum& divisor) {
  if (divisor.is_constant()) return split_by_number(sum, divisor.constant);
  IndexTerm factor = as_factor(divisor);
  Split split{.rest = {.constant = sum.constant}};
  for (const IndexTerm& t : sum.terms) {
    auto exact = divide_exactly(t, factor);
    if (!exact) {
      split.rest.terms.push_back(t);
      continue;
    }
    auto total = add(split.quotient, *exact);
    if (!total) return std::nullopt;
    split.quotient = *total;
  }
  return split;
}

// floor(sum / divisor) where bounds leave only one value.
std::optional<int64_t> only_quotient(const IndexSum& sum, const IndexSum& divisor) {
  int64_t low = min_of(sum), high = max_of(sum);
  if (divisor.is_constant() && low != INT64_MIN && high != INT64_MAX) {
    int64_t quotient = floor_div(low, divisor.constant);
    if (quotient == floor_div(high, divisor.constant)) return quotient;
  }
  if (is_zero(sum) || (low >= 0 && is_less(sum, divisor))) return 0;
  if (high >= 0 || low == INT64_MIN) return std::nullopt;
  auto negated = multiply(sum, IndexSum{.constant = -1});
  if (negated) negated->constant -= 1;  // -divisor <= sum < 0
  return negated && is_less(*negated, divisor) ? std::optional<int64_t>(-1) : std::nullopt;
}

// floor(x / divisor) for sizes that divide well; x may be an upper bound.
std::optional<IndexSum> greatest_quotient(const IndexSum& x, const IndexSum& divisor) {
  auto split = may_divide(divisor) ? split_by(x, divisor) : std::nullopt;
  auto carry = split ? only_quotient(split->rest, divisor) : std::nullopt;
  if (!carry) return std::nullopt;
  split->quotient.constant += *carry;
  return split->quotient;
}

// Numbers and sizes that divide the divisor and some terms of the sum: candidates for taking out a
// common factor.
std::vector<IndexSum> common_factors(const IndexSum& sum, const IndexSum& divisor) {
  std::vector<int64_t> numbers;
  std::vector<IndexSum> result;
  int64_t content = divisor.constant;
  for (const IndexTerm& t : divisor.terms) content = std::gcd(content, t.times);
  for (const IndexTerm& t : sum.terms) {
    int64_t shared = std::gcd(content, t.times);
    if (shared > 1 && !(divisor.is_constant() && shared == content)) numbers.push_back(shared);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (!divisor.is_constant()) {
    IndexTerm whole = as_factor(divisor);
    Refs factors = factors_of(whole.product);
    if (factors.size() > 1 || whole.times > 1)
      for (Ref f : factors)
        if (f->min >= 0) result.push_back({.terms = {{f, 1}}});  // so that both parts are positive
  }
  for (int64_t n : numbers) result.push_back({.constant = n});
  return result;
}

// sum = (outer * factor + inner) with 0 <= inner < factor: then sum / (factor * d) = outer / d and
// sum % (factor * d) = outer % d * factor + inner.
struct TakenOut {
  IndexSum outer, inner, factor, divisor;  // divisor: what is left of it
};

std::optional<TakenOut> take_out_factor(const IndexSum& sum, const IndexSum& divisor) {
  for (const IndexSum& factor : common_factors(sum, divisor)) {
    auto split = split_by(sum, factor);
    if (!split || is_zero(split->quotient)) continue;
    auto carry = only_quotient(split->rest, factor);
    auto left = split_by(divisor, factor);
    if (!carry || !left || !is_zero(left->rest) || !may_divide(left->quotient)) continue;
    split->quotient.constant += *carry;
    auto inner = add(split->rest, factor, -*carry);
    if (inner) return TakenOut{split->quotient, *inner, factor, left->quotient};
  }
  return std::nullopt;
}

// --- the rules

struct Quotient {
  IndexSum x, y;
};

// Both sides of a binary op as sums, where they are.
struct IndexSums {
  explicit IndexSums(Ref node) : x(index_sum(BinaryView(node).x)), y(index_sum(BinaryView(node).y)) {}
  std::optional<IndexSum> x, y;
};

std::optional<Quotient> operands(Ref root) {
  const auto [x, y] = IndexSums(root);
  if (!x || !y || !may_divide(*y)) return std::nullopt;
  return Quotient{*x, *y};
}

// x / y where x is one node: (z / d) / y -> z / (d * y) and (z % (y * d)) / y -> (z / y) % d.
Ref divide_node(Ref x, const IndexSum& y) {
  if (x->op == Op::Div) {
    const BinaryView inner(x);
    auto d = index_sum(inner.y);
    auto both = d ? multiply(*d, y) : std::nullopt;
    return both && may_divide(*d) ? inner.x / to_node(*both) : Ref();
  }
  if (x->op == Op::Mod) {
    const BinaryView inner(x);
    auto m = index_sum(inner.y);
    auto left = m ? split_by(*m, y) : std::nullopt;
    if (left && is_zero(left->rest) && may_divide(left->quotient))
      return (inner.x / to_node(y)) % to_node(left->quotient);
  }
  return Ref();
}

Ref divide(Ref root, const Match&) {
  auto q = operands(root);
  auto split = q ? split_by(q->x, q->y) : std::nullopt;
  if (!split) return Ref();
  if (auto carry = only_quotient(split->rest, q->y)) {
    split->quotient.constant += *carry;
    return to_node(split->quotient);
  }
  if (!is_zero(split->quotient)) return to_node(split->quotient) + to_node(split->rest) / to_node(q->y);
  if (auto out = take_out_factor(q->x, q->y)) return to_node(out->outer) / to_node(out->divisor);
  bool one_node = split->rest.is_single() && split->rest.terms[0].times == 1;
  return one_node ? divide_node(split->rest.terms[0].product, q->y) : Ref();
}

// In a sum that is taken modulo y, z % m may stand as z where m (times what stands before it) is a
// multiple of y.
std::optional<IndexSum> without_inner_modulo(const IndexSum& sum, const IndexSum& y) {
  for (const IndexTerm& t : sum.terms) {
    for (const FactorOut& way : factors_out(t)) {
      if (way.factor->op != Op::Mod) continue;
      const auto [z, m] = IndexSums(way.factor);
      auto period = m ? multiply(way.rest, *m) : std::nullopt;
      auto split = period ? split_by(*period, y) : std::nullopt;
      if (!z || !split || !is_zero(split->rest)) continue;
      auto open = multiply(way.rest, *z);
      auto removed = add(sum, IndexSum{.terms = {t}}, -1);
      if (open && removed) return add(*removed, *open);
    }
  }
  return std::nullopt;
}

Ref modulo(Ref root, const Match&) {
  auto q = operands(root);
  auto split = q ? split_by(q->x, q->y) : std::nullopt;
  if (!split) return Ref();
  IndexSum& rest = split->rest;
  if (q->y.is_constant())
    for (IndexTerm& t : rest.terms) t.times %= q->y.constant;
  if (auto carry = only_quotient(rest, q->y)) {
    auto left = add(rest, q->y, -*carry);
    return left ? to_node(*left) : Ref();
  }
  if (auto open = without_inner_modulo(rest, q->y)) return to_node(*open) % to_node(q->y);
  if (auto out = take_out_factor(rest, q->y))
    return (to_node(out->outer) % to_node(out->divisor)) * to_node(out->factor) + to_node(out->inner);
  return rest == q->x ? Ref() : to_node(rest) % to_node(q->y);
}

// The term of `sum` that is rest * c * (y / c), for some y that equals x modulo c, and that y; or the one that is
// rest * c * (x / c % d), and x % (c * d).
struct Partner {
  IndexTerm term;
  IndexSum whole;
};

// Whether a factor is x % d for some constant d.
bool is_remainder_of(Ref factor, const IndexSum& x) {
  if (factor->op != Op::Mod || !const_int(BinaryView(factor).y)) return false;
  const auto own = index_sum(BinaryView(factor).x);
  return own && *own == x;
}

std::optional<Partner> partner_of(const IndexSum& sum, const IndexSum& rest, Ref x, Ref c) {
  auto plain = index_sum(x), divisor = index_sum(c);
  auto scaled = plain && divisor ? multiply(rest, *divisor) : std::nullopt;
  if (!scaled) return std::nullopt;
  auto quotient = index_sum(simplify(x / c));
  if (!quotient) return std::nullopt;
  auto expected = multiply(*scaled, *quotient);
  if (expected && expected->is_single())
    for (const IndexTerm& t : sum.terms)
      if (t == expected->terms[0]) return Partner{t, *plain};
  for (const IndexTerm& t : sum.terms) {
    for (const FactorOut& way : factors_out(t)) {
      if (way.rest == *scaled && is_remainder_of(way.factor, *quotient))
        if (auto whole = index_sum(simplify(x % (c * BinaryView(way.factor).y)))) return Partner{t, *whole};
      if (way.factor->op != Op::Div || !(BinaryView(way.factor).y == c) || !(way.rest == *scaled)) continue;
      auto y = index_sum(BinaryView(way.factor).x);
      auto difference = y ? add(*y, *plain, -1) : std::nullopt;
      auto split = difference ? split_by(*difference, *divisor) : std::nullopt;
      if (split && is_zero(split->rest)) return Partner{t, *y};
    }
  }
  return std::nullopt;
}

// x / c * c + x % c -> x and x / c % d * c + x % c -> x % (c * d), wherever both stand in a sum with the same factors.
std::optional<IndexSum> join_quotient_and_rest(const IndexSum& sum) {
  for (const IndexTerm& t : sum.terms) {
    for (const FactorOut& way : factors_out(t)) {
      if (way.factor->op != Op::Mod) continue;
      const auto [x, c] = BinaryView(way.factor);
      auto partner = partner_of(sum, way.rest, x, c);
      if (!partner) continue;
      auto joined = multiply(way.rest, partner->whole);
      auto left = add(sum, IndexSum{.terms = {t}}, -1);
      left = left ? add(*left, IndexSum{.terms = {partner->term}}, -1) : std::nullopt;
      if (joined && left) return add(*left, *joined);
    }
  }
  return std::nullopt;
}

Ref collect(Ref root, const Match&) {
  auto sum = index_sum(root);
  if (!sum) return Ref();
  while (auto joined = join_quotient_and_rest(*sum)) sum = joined;
  return to_node(*sum);
}

// `margin` >= 1, as a comparison with positive terms on both sides.
Ref at_least_one(const IndexSum& margin) {
  IndexSum left, right{.constant = margin.constant};
  for (const IndexTerm& t : margin.terms) {
    if (t.times < 0) left.terms.push_back({t.product, -t.times});
    if (t.times > 0) right.terms.push_back(t);
  }
  if (left.terms.empty()) {
    left.constant = -right.constant;
    right.constant = 0;
  }
  return binary(Op::Lt, to_node(left), to_node(right));
}

// margin = g * outer + inner: margin >= 1 is outer + q + 1 >= 1 where (inner - 1) / g is always q.
std::optional<IndexSum> coarser_margin(const IndexSum& margin) {
  std::vector<int64_t> steps;
  for (const IndexTerm& t : margin.terms)
    if (t.times > 1 || t.times < -1) steps.push_back(t.times < 0 ? -t.times : t.times);
  std::sort(steps.rbegin(), steps.rend());
  for (int64_t g : steps) {
    Split split = split_by_number(margin, g);
    split.rest.constant = margin.constant - 1;
    auto q = only_quotient(split.rest, IndexSum{.constant = g});
    if (!q) continue;
    split.quotient.constant = *q + 1;
    return split.quotient;
  }
  return std::nullopt;
}

Ref less(Ref root, const Match&) {
  const auto [x, y] = IndexSums(root);
  auto margin = x && y ? add(*y, *x, -1) : std::nullopt;
  if (!margin) return Ref();
  if (least(*margin) >= 1) return constant(1, DType::Bool);
  auto reverse = add(*x, *y, -1);
  if (reverse && least(*reverse) >= 0) return constant(0, DType::Bool);
  if (auto coarser = coarser_margin(*margin)) return at_least_one(*coarser);
  return at_least_one(*margin);
}

Ref equal(Ref root, const Match&) {
  const auto [x, y] = IndexSums(root);
  auto forth = x && y ? add(*x, *y, -1) : std::nullopt;
  auto back = x && y ? add(*y, *x, -1) : std::nullopt;
  if (!forth || !back) return Ref();
  if (is_zero(*forth)) return constant(1, DType::Bool);
  int64_t step = 0;
  for (const IndexTerm& t : forth->terms) step = std::gcd(step, t.times);
  bool never = least(*forth) >= 1 || least(*back) >= 1 || (step > 1 && forth->constant % step != 0);
  return never ? constant(0, DType::Bool) : Ref();
}

// The operand that is never less than the other; null if bounds do not tell.
Ref greater_operand(Ref root) {
  const auto [x, y] = IndexSums(root);
  auto forth = x && y ? add(*x, *y, -1) : std::nullopt;
  auto back = x && y ? add(*y, *x, -1) : std::nullopt;
  if (forth && least(*forth) >= 0) return BinaryView(root).x;
  if (back && least(*back) >= 0) return BinaryView(root).y;
  return Ref();
}

Ref maximum(Ref root, const Match&) { return greater_operand(root); }

Ref minimum(Ref root, const Match&) {
  Ref greater = greater_operand(root);
  if (!greater) return Ref();
  const auto [x, y] = BinaryView(root);
  return greater == x ? y : x;
}

}  // namespace

const RuleSet& index_rules() {
  using namespace pattern;
  static const Pat x = index("x"), y = index("y");
  // clang-format off
  static const RuleSet rules{"index", {
      {"collect-add", x + y,      collect},
      {"collect-sub", x - y,      collect},
      {"collect-mul", x * y,      collect},
      {"collect-neg", -x,         collect},
      {"divide",      x / y,      divide},
      {"modulo",      x % y,      modulo},
      {"less",        lt(x, y),   less},
      {"equal",       eq(x, y),   equal},
      {"maximum",     max(x, y),  maximum},
      {"minimum",     min(x, y),  minimum},
  }};
  // clang-format on
  return rules;
}

}  // namespace smelt
