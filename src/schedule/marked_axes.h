// Axes of a tensor along which something repeats, and which axes these are behind a movement.
#pragma once

#include <set>

#include "graph/node.h"

namespace smelt {

using Axes = std::set<int>;

// The axes of a movement's result that hold elements of the marked axes of its source.
Axes through_move(Ref move, const Axes& marked);

// Of what is left when `axis` is gone, as behind a reduction.
Axes without_axis(const Axes& axes, int axis);

// Along which an Expand repeats its source.
Axes expanded_axes(Ref expand);

}  // namespace smelt
