// One-line claims about rewriting. On failure both expressions are printed.
#pragma once

#include <doctest/doctest.h>

#include "graph/rewrite.h"
#include "graph/rules_algebra.h"
#include "graph/text.h"

// `rules` turn `before` into `after`.
#define CHECK_REWRITE(rules, before, after)                                                    \
  CHECK(smelt::to_infix(smelt::rewrite((before), (rules), "test")) == smelt::to_infix(after)); \
  CHECK(smelt::rewrite((before), (rules), "test") == (after))

// No rule fires: the same node comes back.
#define CHECK_UNCHANGED(rules, expr) CHECK(smelt::rewrite((expr), (rules), "test") == (expr))

// simplify() turns `before` into what it makes of `after`.
#define CHECK_SIMPLIFY(before, after)                                                         \
  CHECK(smelt::to_infix(smelt::simplify(before)) == smelt::to_infix(smelt::simplify(after))); \
  CHECK(smelt::simplify(before) == smelt::simplify(after))

// simplify() gives exactly this text.
#define CHECK_SIMPLE(expr, text) CHECK(smelt::to_infix(smelt::simplify(expr)) == (text))

namespace smelt {
inline Ref range(int64_t id, Ref size) { return make(Op::Range, DType::I64, {size}, {.i = id, .list = {0}}); }
inline Ref range(int64_t id, int64_t size) { return range(id, constant(size)); }
inline Ref less(Ref x, Ref y) { return binary(Op::Lt, x, y); }
inline Ref less(Ref x, int64_t y) { return less(x, constant(y, x->dtype)); }
inline Ref equal(Ref x, Ref y) { return binary(Op::Eq, x, y); }
inline Ref equal(Ref x, int64_t y) { return equal(x, constant(y, x->dtype)); }
inline Ref truth(bool value) { return constant(value, DType::Bool); }
}  // namespace smelt
