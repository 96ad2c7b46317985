// The interpreter: slow, obvious, in double precision. It judges every rule, option and rendered
// kernel.
//
// Precision. Integers wrap at their width (i64 values are exact up to 2^53). Loads of floats are
// exact, arithmetic on f32 and f64 is done in double; results of dtype f16 and bf16 are rounded to
// it. With round_f32 every elementwise f32 result is rounded to float, which makes dequantisation
// bit-exact. Values written to a buffer are rounded to its dtype.
//
// Memory. Movement ops are views. An elementwise node that only a reduction (or another such node)
// uses is computed piece by piece, so a matrix product never holds its products; other tensors are
// freed after their last use.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "graph/scalar_math.h"

namespace smelt {

// A tensor's values, row-major. Integers and bool (0, 1) are held as the doubles equal to them.
struct Array {
  DType dtype = DType::Void;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

struct EvalInputs {
  std::map<int64_t, std::span<const std::byte>> buffers;  // per slot: row-major, of the dtype that the Param declares
  std::map<std::string, int64_t> variables;
  bool round_f32 = false;
};

struct EvalResult {
  Array value;                                        // of a tensor or output as root; empty for a sink
  std::map<int64_t, Array> outputs;                   // per slot of the Output nodes
  std::map<int64_t, std::vector<std::byte>> written;  // per slot: the whole buffer after the Writes
};

// Evaluates a tensor graph: a tensor, an output or a sink. The inputs are not changed: a Write
// gives a copy of its buffer. REQUIRES: every slot and variable used is given, buffers are as large
// as their Params, indices are in range (ENSURE).
EvalResult eval(Ref root, const EvalInputs& inputs);

// The bytes of an array as memory holds it.
std::vector<std::byte> to_bytes(const Array& array);

// The value of a scalar expression of elementwise ops, ranges, variables and constants, when its
// leaves have the values given. Integers wrap at their width, floats are rounded to their dtype.
// nullopt where an op is undefined (see apply_op) or a leaf has no value.
using ScalarValues = std::unordered_map<Ref, Scalar, RefHash>;
std::optional<Scalar> eval_scalar(Ref expr, const ScalarValues& leaves);

}  // namespace smelt
