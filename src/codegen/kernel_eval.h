// Runs a kernel's tree as it is written, without programs or machines: the judge of options and
// passes.
//
// It takes kernels as make_schedule() leaves them, and every later form up to expand(): each range
// is just a loop, whatever its kind. Arithmetic on f32 is done in double; memory holds floats. A
// score of an online softmax that is masked (see bound_masks) does not count, even where all are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/node.h"
#include "graph/scalar_math.h"

namespace smelt {

struct KernelEvalRequest {
  Ref tree;                                         // Sink of stores, or of Sinks of stores
  std::vector<std::span<const std::byte>> buffers;  // by Param number; only read
  std::map<std::string, int64_t> variables;
  // At most so many elements of each store, spread evenly; those of Local buffers are all computed.
  int64_t elements_per_store = std::numeric_limits<int64_t>::max();
  // Only those for which this is true of their buffer and offset, if it is there; tiles without such are left out.
  std::function<bool(int64_t, int64_t)> wants = {};
};

// One element that the kernel stores: what it should be, and where.
struct KernelElement {
  int64_t buffer = 0;
  int64_t offset = 0;  // in bytes
  DType dtype = DType::Void;
  Scalar value;  // of a float: not rounded to the dtype
};

// The elements of all stores but those to Local buffers, in order. An Error names the load that is
// outside of its buffer. REQUIRES: the tree passes verify() as a kernel, and every variable has a
// value.
Result<std::vector<KernelElement>> evaluate_kernel(const KernelEvalRequest& request);

// Whether a kernel makes integers of floats on its way. Then a value near the middle of two steps may go either way,
// and with it one term of a sum.
bool rounds_floats(Ref tree);

// How far buffers are from what they should hold.
struct KernelDifference {
  // |got - expected| / (1 + greatest |expected| of the buffer), in units that f32 reaches: f16 and
  // bf16 count by their precision. Infinite where integers differ or one value is NaN.
  double worst = 0;
  std::string where;  // that element, with both values
};

// `rounded`: of a kernel with rounds_floats(). Then bytes may be a step apart, and sums of them count as floats do.
// REQUIRES: the elements lie inside of the buffers.
KernelDifference difference(const std::vector<KernelElement>& expected,
                            const std::vector<std::span<const std::byte>>& buffers, bool rounded = false);

// The greatest difference of a right kernel.
inline double tolerance(bool rounded) { return rounded ? 5e-3 : 2e-5; }

}  // namespace smelt
