// simplify() against direct evaluation: random expressions over ranges, variables and constants, at
// random points.
#include <doctest/doctest.h>

#include <random>
#include <thread>

#include "graph/eval.h"
#include "graph/rules_algebra.h"
#include "graph/text.h"

using namespace smelt;

namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  // New leaves: ranges of constant and symbolic size, variables.
  void new_leaves() {
    static const int64_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 256};
    leaves_.clear();
    size_ = variable("S", 1, 1 + below(40));
    leaves_.push_back(size_);
    leaves_.push_back(variable("v", -below(20), below(50)));
    for (int64_t id = 0; id < 4; ++id) {
      Ref size = below(4) == 0 ? size_ : constant(sizes[below(11)]);
      leaves_.push_back(make(Op::Range, DType::I64, {size}, {.i = id, .list = {0}}));
    }
  }

  // Values for the leaves, within their bounds.
  ScalarValues point() {
    ScalarValues values;
    int64_t s = size_->min + below(size_->max - size_->min + 1);
    values[size_] = {.i = s};
    for (Ref leaf : leaves_) {
      if (leaf == size_) continue;
      int64_t top = leaf->op == Op::Range && leaf->src[0] == size_ ? s - 1 : leaf->max;
      values[leaf] = {.i = leaf->min + below(top - leaf->min + 1)};
    }
    return values;
  }

  Ref expression(DType dtype, int depth) {
    if (dtype == DType::Bool) return truth(depth);
    if (depth == 0 || below(8) == 0) return leaf(dtype);
    Ref x = expression(dtype, depth - 1);
    switch (below(14)) {
      case 0:
      case 1:
      case 2: return x + expression(dtype, depth - 1);
      case 3: return x - expression(dtype, depth - 1);
      case 4: return x * expression(dtype, depth > 2 ? 1 : depth - 1);
      case 5: return x * divisor(dtype);
      case 6: return x / divisor(dtype);
      case 7: return x % divisor(dtype);
      case 8: return binary(Op::Max, x, expression(dtype, depth - 1));
      case 9: return binary(Op::Min, x, expression(dtype, depth - 1));
      case 10: return where(truth(depth - 1), x, expression(dtype, depth - 1));
      case 11: return bits(x, dtype);
      case 12: return cast(expression(any_int(), depth - 1), dtype);
      default: {
        Ref d = divisor(dtype);
        return below(2) ? (x / d) * d + x % d : (x * d + leaf(dtype)) / d;
      }
    }
  }

  DType any_int() {
    static const DType all[] = {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::I64};
    return all[below(7)];
  }

 private:
  Ref leaf(DType dtype) {
    if (below(3) == 0) return constant(wrap(below(40) - 10, dtype), dtype);
    return cast(leaves_[static_cast<size_t>(below(static_cast<int64_t>(leaves_.size())))], dtype);
  }

  Ref divisor(DType dtype) {
    static const int64_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 100};
    int64_t pick = below(14);
    if (pick < 11) return constant(sizes[pick], dtype);
    Ref size = cast(size_, dtype);
    return pick == 11 ? size * sizes[below(8)] : size;
  }

  Ref bits(Ref x, DType dtype) {
    int64_t number = below(8);
    switch (below(6)) {
      case 0: return binary(Op::Shl, x, constant(number, dtype));
      case 1: return binary(Op::Shr, x, constant(number, dtype));
      case 2: return binary(Op::And, x, constant((int64_t{1} << number) - 1, dtype));
      case 3: return binary(Op::Or, x, constant(number, dtype));
      case 4: return binary(Op::Xor, x, constant(number, dtype));
      default: return below(2) ? unary(Op::Neg, x) : unary(Op::Not, x);
    }
  }

  Ref truth(int depth) {
    DType dtype = below(2) ? DType::I64 : any_int();
    int next = depth > 0 ? depth - 1 : 0;
    if (depth > 1 && below(3) == 0) {
      Op op = below(2) ? Op::And : Op::Or;
      return binary(op, truth(next), below(3) ? truth(next) : unary(Op::Not, truth(next)));
    }
    return binary(below(3) ? Op::Lt : Op::Eq, expression(dtype, next), expression(dtype, next));
  }

  std::mt19937_64 random_;
  std::vector<Ref> leaves_;
  Ref size_;
};

void check_many(uint64_t seed, int expressions, bool index_only) {
  Generator generator(seed);
  int compared = 0, wrong = 0;
  for (int n = 0; n < expressions && wrong < 3; ++n) {
    if (n % 20 == 0) generator.new_leaves();
    DType dtype = index_only ? DType::I64 : generator.below(6) == 0 ? DType::Bool : generator.any_int();
    Ref expr = generator.expression(dtype, 2 + static_cast<int>(generator.below(4)));
    Ref simple = simplify(expr);
    if (simplify(simple) != simple) ++wrong;
    for (int sample = 0; sample < 6; ++sample) {
      ScalarValues values = generator.point();
      auto expected = eval_scalar(expr, values);
      if (!expected) continue;
      ++compared;
      auto found = eval_scalar(simple, values);
      bool inside = expected->i >= simple->min && expected->i <= simple->max;
      if (found && found->i == expected->i && inside) continue;
      ++wrong;
      std::string point;
      for (auto [leaf, value] : values) point += to_infix(leaf) + "=" + std::to_string(value.i) + " ";
      FAIL_CHECK(to_infix(expr) << " became " << to_infix(simple) << " at " << point << ": " << expected->i
                                << " became " << (found ? std::to_string(found->i) : "undefined"));
      break;
    }
  }
  CHECK(wrong == 0);
  CHECK(compared > expressions * 2);
}

}  // namespace

TEST_CASE("simplified index expressions keep their value") { check_many(1, 20000, true); }
TEST_CASE("simplified expressions of all widths keep their value") { check_many(2, 20000, false); }

TEST_CASE("threads may simplify at the same time") {
  constexpr int kThreads = 4, kExpressions = 500;
  std::vector<std::vector<Ref>> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&results, t] {
      Generator generator(99);
      for (int n = 0; n < kExpressions; ++n) {
        if (n % 20 == 0) generator.new_leaves();
        results[static_cast<size_t>(t)].push_back(simplify(generator.expression(DType::I64, 4)));
      }
    });
  for (std::thread& t : threads) t.join();
  for (int t = 1; t < kThreads; ++t) CHECK(results[static_cast<size_t>(t)] == results[0]);
}
