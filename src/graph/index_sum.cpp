#include "graph/index_sum.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/ensure.h"
#include "graph/node_map.h"
#include "graph/operands.h"
#include "graph/range_kind.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

// --- which ranges a node knows

struct RangeMemory {
  std::mutex mutex;
  NodeMap<int64_t> innermost;
};

RangeMemory& range_memory(Ref node) {
  static RangeMemory shards[16];
  return shards[(node->key >> 24) & 15];
}

int64_t depth_of(Ref range) {
  auto kind = range->arg.list.empty() ? RangeKind::Loop : static_cast<RangeKind>(range->arg.list[0]);
  int64_t order = 0;
  switch (kind) {
    case RangeKind::Task:
    case RangeKind::Tile:
    case RangeKind::Chunk:
    case RangeKind::Sweep:
    case RangeKind::Loop: order = 0; break;
    case RangeKind::Partial:
    case RangeKind::Reduce: order = 1; break;
    case RangeKind::Unroll:
    case RangeKind::Byte:
    case RangeKind::MatrixRow:
    case RangeKind::Lane: order = 2; break;
  }
  return (order << 48) + range_order(range->arg.i);
}

std::optional<int64_t> known_innermost(Ref node) {
  if (node->src.empty()) return -1;  // a leaf, but not a range: that has its size
  RangeMemory& memory = range_memory(node);
  std::lock_guard lock(memory.mutex);
  const int64_t* known = memory.innermost.find(node);
  return known ? std::optional(*known) : std::nullopt;
}

// --- arithmetic that notices overflow

bool add_to(int64_t& total, int64_t value, int64_t times) {
  int64_t product;
  return !__builtin_mul_overflow(value, times, &product) && !__builtin_add_overflow(total, product, &total);
}

int64_t saturate(__int128 value) { return static_cast<int64_t>(std::clamp<__int128>(value, INT64_MIN, INT64_MAX)); }

bool is_size(const IndexSum& sum) {
  return std::all_of(sum.terms.begin(), sum.terms.end(),
                     [](const IndexTerm& t) { return innermost_range(t.product) < 0; });
}

// Adds one term in place; false on overflow.
bool add_term(IndexSum& sum, Ref product, int64_t times) {
  auto at = std::lower_bound(sum.terms.begin(), sum.terms.end(), product,
                             [](const IndexTerm& t, Ref p) { return term_less(t.product, p); });
  if (at == sum.terms.end() || !(at->product == product)) {
    if (times != 0) sum.terms.insert(at, {product, times});
    return true;
  }
  if (!add_to(at->times, times, 1)) return false;
  if (at->times == 0) sum.terms.erase(at);
  return true;
}

bool add_sum(IndexSum& total, const IndexSum& sum, int64_t times) {
  if (!add_to(total.constant, sum.constant, times)) return false;
  for (const IndexTerm& t : sum.terms) {
    int64_t scaled = 0;
    if (!add_to(scaled, t.times, times) || !add_term(total, t.product, scaled)) return false;
  }
  return true;
}

std::optional<IndexTerm> multiply_terms(const IndexTerm& a, const IndexTerm& b) {
  int64_t times = 0;
  if (!add_to(times, a.times, b.times)) return std::nullopt;
  Refs factors = factors_of(a.product), more = factors_of(b.product);
  factors.insert(factors.end(), more.begin(), more.end());
  return IndexTerm{product_of(std::move(factors)), times};
}

bool add_multiplied_out(IndexSum& total, const IndexSum& sum, const IndexTerm& factor) {
  int64_t scaled = 0;
  if (sum.constant && (!add_to(scaled, sum.constant, factor.times) || !add_term(total, factor.product, scaled)))
    return false;
  for (const IndexTerm& t : sum.terms) {
    auto product = multiply_terms(t, factor);
    if (!product || !add_term(total, product->product, product->times)) return false;
  }
  return true;
}

// --- reading expressions

bool add_expression(IndexSum& total, Ref expr, int64_t times);

bool add_product(IndexSum& total, Ref expr, int64_t times) {
  const BinaryView factors(expr);
  auto x = index_sum(factors.x), y = index_sum(factors.y);
  if (!x || !y) return false;
  auto product = multiply(*x, *y);
  return product && add_sum(total, *product, times);
}

bool add_expression(IndexSum& total, Ref expr, int64_t times) {
  // The left spine of a sum is as long as the sum has terms: walked, not recursed into.
  while (true) {
    if (expr->min == expr->max) return add_to(total.constant, expr->min, times);
    int64_t negative;
    if (__builtin_mul_overflow(times, -1, &negative)) return false;
    switch (expr->op) {
      case Op::Add:
        if (!add_expression(total, BinaryView(expr).y, times)) return false;
        expr = BinaryView(expr).x;
        continue;
      case Op::Sub:
        if (!add_expression(total, BinaryView(expr).y, negative)) return false;
        expr = BinaryView(expr).x;
        continue;
      case Op::Neg:
        expr = operand_of(expr);
        times = negative;
        continue;
      case Op::Mul: return add_product(total, expr, times);
      default: return add_term(total, expr, times);
    }
  }
}

}  // namespace

int64_t innermost_range(Ref expr) {
  std::vector<Ref> stack{expr};
  while (!stack.empty()) {
    Ref node = stack.back();
    if (known_innermost(node)) {
      stack.pop_back();
      continue;
    }
    int64_t highest = node->op == Op::Range ? depth_of(node) : -1;
    bool ready = true;
    for (Ref s : node->src) {
      auto known = known_innermost(s);
      if (!known) stack.push_back(s);
      ready = ready && known;
      highest = std::max(highest, known.value_or(-1));
    }
    if (!ready) continue;
    RangeMemory& memory = range_memory(node);
    std::lock_guard lock(memory.mutex);
    memory.innermost.set(node, highest);
    stack.pop_back();
  }
  return *known_innermost(expr);
}

bool term_less(Ref a, Ref b) {
  int64_t x = innermost_range(a), y = innermost_range(b);
  return x != y ? x < y : structurally_less(a, b);
}

std::optional<IndexSum> index_sum(Ref expr) {
  ENSURE(expr->dtype == DType::I64, "index_sum wants an i64 expression");
  IndexSum sum;
  if (!add_expression(sum, expr, 1)) return std::nullopt;
  return sum;
}

Ref to_node(const IndexSum& sum) {
  if (sum.terms.empty()) return constant(sum.constant);
  Ref total;
  for (const IndexTerm& t : sum.terms) {
    Ref term = t.times == 1 ? t.product : t.product * t.times;
    total = total ? total + term : term;
  }
  return sum.constant == 0 ? total : total + sum.constant;
}

int64_t min_of(const IndexSum& sum) {
  __int128 total = sum.constant;
  for (const IndexTerm& t : sum.terms) {
    int64_t end = t.times > 0 ? t.product->min : t.product->max;
    if (end == INT64_MIN || end == INT64_MAX) return INT64_MIN;
    total += static_cast<__int128>(end) * t.times;
  }
  return saturate(total);
}

int64_t max_of(const IndexSum& sum) {
  __int128 total = sum.constant;
  for (const IndexTerm& t : sum.terms) {
    int64_t end = t.times > 0 ? t.product->max : t.product->min;
    if (end == INT64_MIN || end == INT64_MAX) return INT64_MAX;
    total += static_cast<__int128>(end) * t.times;
  }
  return saturate(total);
}

std::optional<IndexSum> add(const IndexSum& a, const IndexSum& b, int64_t times_b) {
  IndexSum total = a;
  if (!add_sum(total, b, times_b)) return std::nullopt;
  return total;
}

std::optional<IndexSum> multiply(const IndexSum& a, const IndexSum& b) {
  IndexSum total;
  if (a.is_constant()) return add_sum(total, b, a.constant) ? std::optional(total) : std::nullopt;
  if (b.is_constant()) return add_sum(total, a, b.constant) ? std::optional(total) : std::nullopt;
  // A sum that depends on ranges is multiplied out with a single product or a size; the rest are
  // plain factors.
  bool open_a = !is_size(a) && (b.is_single() || is_size(b));
  bool open_b = !open_a && !is_size(b) && (a.is_single() || is_size(a));
  bool done;
  if (open_b) {
    done = add_multiplied_out(total, b, as_factor(a));
  } else if (open_a) {
    done = add_multiplied_out(total, a, as_factor(b));
  } else {
    auto product = multiply_terms(as_factor(a), as_factor(b));
    done = product && add_term(total, product->product, product->times);
  }
  return done ? std::optional(total) : std::nullopt;
}

IndexTerm as_factor(const IndexSum& sum) {
  if (sum.is_single()) return sum.terms[0];
  int64_t divisor = sum.constant;
  for (const IndexTerm& t : sum.terms) divisor = std::gcd(divisor, t.times);
  IndexSum rest = sum;
  rest.constant /= divisor;
  for (IndexTerm& t : rest.terms) t.times /= divisor;
  return {to_node(rest), divisor};
}

Refs factors_of(Ref product) {
  Refs factors;
  while (product->op == Op::Mul && !is_const(BinaryView(product).y)) {
    factors.push_back(BinaryView(product).y);
    product = BinaryView(product).x;
  }
  factors.push_back(product);
  std::reverse(factors.begin(), factors.end());
  return factors;
}

Ref product_of(Refs factors) {
  std::sort(factors.begin(), factors.end(), term_less);
  Ref product = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) product = product * factors[i];
  return product;
}

std::optional<IndexSum> divide_exactly(const IndexTerm& term, const IndexTerm& divisor) {
  if (term.times % divisor.times != 0) return std::nullopt;
  Refs factors = factors_of(term.product);
  for (Ref f : factors_of(divisor.product)) {
    auto at = std::find(factors.begin(), factors.end(), f);
    if (at == factors.end()) return std::nullopt;
    factors.erase(at);
  }
  int64_t times = term.times / divisor.times;
  if (factors.empty()) return IndexSum{.constant = times};
  return IndexSum{.terms = {{product_of(std::move(factors)), times}}};
}

}  // namespace smelt
