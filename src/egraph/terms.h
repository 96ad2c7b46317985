// Terms: nodes of an e-graph with their shapes worked out, as graph/tensor.h does it for graphs. What the right sides
// of rules are written with. Shapes must fit (ENSURE); axes are counted from the front.
#pragma once

#include <optional>

#include "egraph/egraph.h"

namespace smelt::egraph {

Shape shape_of(const EGraph& g, ClassId x);  // a copy: adding nodes moves classes
int rank_of(const EGraph& g, ClassId x);
// The length of an axis, negative ones from the end; nullopt where it is symbolic.
std::optional<int64_t> size_of(const EGraph& g, ClassId x, int axis);

ClassId weight(EGraph& g, int64_t slot, std::string name, Shape shape);
ClassId contract(EGraph& g, ClassId x, ClassId w);
ClassId concat(EGraph& g, std::vector<ClassId> parts, int axis);
ClassId gather(EGraph& g, ClassId x, ClassId rows);
ClassId gathered_copy(EGraph& g, ClassId x, ClassId rows);
ClassId select(EGraph& g, ClassId y, ClassId rows);
ClassId quantised(EGraph& g, ClassId x);
ClassId reshape(EGraph& g, ClassId x, Shape shape);
ClassId permute(EGraph& g, ClassId x, std::vector<int64_t> axes);
ClassId expand(EGraph& g, ClassId x, Shape shape);
ClassId shrink(EGraph& g, ClassId x, int axis, int64_t begin, Ref size);
ClassId reduce_sum(EGraph& g, ClassId x, int axis);
// sum over axis of exp(score - its greatest) * value: Op::SoftmaxSum.
ClassId softmax_sum(EGraph& g, ClassId score, ClassId value, int axis);

// The last two axes exchanged.
ClassId transpose(EGraph& g, ClassId w);
// A new axis of size 1 in front of `axis`.
ClassId unsqueeze(EGraph& g, ClassId x, int axis);
// v w for stacks of matrices: [..., n, m] and [..., m, k] to [..., n, k].
ClassId matrix_product(EGraph& g, ClassId v, ClassId w);

// Numpy's broadcast of two shapes; nullopt where they do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

}  // namespace smelt::egraph
