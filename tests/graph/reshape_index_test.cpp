// Index arithmetic as reshapes make it: going through other shapes and back must leave the plain
// ranges.
#include <random>

#include "graph/check_rewrite.h"

using namespace smelt;

namespace {

Ref flatten(const Refs& shape, const Refs& index) {
  Ref flat = constant(0);
  for (size_t k = 0; k < shape.size(); ++k) flat = flat * shape[k] + index[k];
  return simplify(flat);
}

Refs unflatten(const Refs& shape, Ref flat) {
  Refs index(shape.size());
  for (size_t k = shape.size(); k-- > 0;) {
    index[k] = k == 0 ? flat : simplify(flat % shape[k]);
    flat = simplify(flat / shape[k]);
  }
  return index;
}

void check_there_and_back(const Refs& from, const std::vector<Refs>& through) {
  Refs index, at;
  for (size_t k = 0; k < from.size(); ++k) index.push_back(range(static_cast<int64_t>(k), from[k]));
  at = index;
  Refs shape = from;
  for (const Refs& next : through) {
    at = unflatten(next, flatten(shape, at));
    shape = next;
  }
  at = unflatten(from, flatten(shape, at));
  for (size_t k = 0; k < from.size(); ++k) CHECK(to_infix(at[k]) == to_infix(simplify(index[k] + 0)));
}

Refs numbers(const std::vector<int64_t>& sizes) {
  Refs shape;
  for (int64_t n : sizes) shape.push_back(constant(n));
  return shape;
}

// A random shape of these factors in this order: neighbours are merged by chance.
Refs merged(const std::vector<Ref>& factors, std::mt19937_64& random) {
  Refs shape{factors[0]};
  for (size_t k = 1; k < factors.size(); ++k) {
    if (random() % 2)
      shape.back() = simplify(shape.back() * factors[k]);
    else
      shape.push_back(factors[k]);
  }
  return shape;
}

}  // namespace

TEST_CASE("reshapes by whole factors leave plain ranges") {
  check_there_and_back(numbers({4, 256}), {numbers({1024})});
  check_there_and_back(numbers({4, 256}), {numbers({4, 8, 32}), numbers({32, 32}), numbers({1024})});
  check_there_and_back(numbers({6, 20}), {numbers({120}), numbers({3, 40})});
  check_there_and_back(numbers({5, 7, 9}), {numbers({9, 7, 5}), numbers({315})});
}

TEST_CASE("reshapes of symbolic sizes leave plain ranges") {
  Ref s = variable("S", 1, 4096), t = variable("T", 0, 512), four = constant(4), n = constant(64);
  check_there_and_back({s, n}, {{s * n}, {s, four, constant(16)}});
  check_there_and_back({s, four, n}, {{s * 4, n}, {s, constant(256)}, {s * 256}});
  check_there_and_back({s, t, n}, {{s * t, n}, {s, t * n}, {s * t * n}});
  check_there_and_back({s + t, n}, {{(s + t) * n}});
  check_there_and_back({four, s + t, n}, {{four, (s + t) * n}, {(s + t) * 4, n}, {(s + t) * 256}});
  check_there_and_back({t * 256, four}, {{t, constant(1024)}, {t * 1024}});
}

TEST_CASE("random reshapes of the same factors leave plain ranges") {
  std::mt19937_64 random(7);
  const Ref s = variable("S", 1, 4096);
  for (int n = 0; n < 300; ++n) {
    std::vector<Ref> factors;
    const int64_t sizes[] = {2, 3, 4, 8, 16, 32};
    for (size_t k = 0, count = 2 + random() % 4; k < count; ++k) factors.push_back(constant(sizes[random() % 6]));
    if (random() % 2) factors[random() % factors.size()] = s;
    check_there_and_back(merged(factors, random), {merged(factors, random), merged(factors, random)});
  }
}

TEST_CASE("a long unrolled index keeps to its terms") {
  Ref s = variable("S", 1, 4096), outer = range(0, s), inner = range(1, 64), copy = range(2, 16);
  Ref offset = simplify(((outer * 64 + inner) * 16 + copy) * 18 + copy / 2);
  for (int64_t c = 0; c < 16; ++c) {
    Ref one = substitute(offset, {{copy, constant(c)}});
    CHECK(to_infix(one) == "r0*18432 + r1*288" + (c ? " + " + std::to_string(18 * c + c / 2) : ""));
  }
}
