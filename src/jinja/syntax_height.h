// How many expressions lie inside each other at most.
#pragma once

#include "jinja/syntax.h"

namespace smelt::jinja {

// Of the children of a node: 0 where it has none.
int height_of_children(const Expression::Node& node);

}  // namespace smelt::jinja
