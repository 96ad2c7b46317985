// What each elementwise op does to single numbers, at the width and precision of the dtype.
// Constant folding, the tests of rules and the interpreter share these definitions, so there is one
// meaning of every op.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "graph/node.h"

namespace smelt {

// A number of some dtype: `i` for integers and bool, `f` for floats.
struct Scalar {
  int64_t i = 0;
  double f = 0;
};

int64_t wrap(int64_t value, DType dtype);  // to the width of an integer dtype; bool: value != 0
int64_t lowest_int(DType dtype);           // of an integer dtype or bool
int64_t highest_int(DType dtype);
int64_t floor_div(int64_t x, int64_t y);  // REQUIRES: y > 0.
int64_t floor_mod(int64_t x, int64_t y);  // REQUIRES: y > 0.

// The nearest value of a float dtype, ties to even; overflow is infinite.
double round_to(double value, DType dtype);

// The bits of a number as it lies in memory (little-endian, in the low bytes), and back.
uint64_t to_bits(Scalar value, DType dtype);
Scalar from_bits(uint64_t bits, DType dtype);

// The constant node of a number, and the number of a constant node.
Ref constant_of(Scalar value, DType dtype);
std::optional<Scalar> scalar_of(Ref node);

// The value of elementwise `node` (its op, dtype, arg and the dtypes of its sources) when its
// sources have `values`. Floats are rounded to the dtype. nullopt where the op is undefined:
// division by zero or a negative integer, shifts by the width or more, i64 overflow (index
// arithmetic is assumed not to overflow), a look-up beyond the table.
std::optional<Scalar> apply_op(const Node& node, std::span<const Scalar> values);
// The same for who has many values of one node: the function is looked up once. False where the op is undefined.
using ScalarFunction = bool (*)(const Node& node, const Scalar* const* values, Scalar* result);
ScalarFunction scalar_function(const Node& node);
// The sum and the products of the bytes of two words, x unsigned and y signed, as i32.
Scalar dot4(int64_t sum, int64_t x, int64_t y);
std::optional<Scalar> apply_binary(Op op, DType operands, Scalar x, Scalar y);

}  // namespace smelt
