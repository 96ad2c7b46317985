#pragma once

#include <doctest/doctest.h>

#include "graph/tensor.h"
#include "schedule/schedule.h"

namespace smelt::testing {

// The only kernel that computes x.
inline Ref kernel_tree(Tensor x) {
  const Schedule schedule = make_schedule(sink({output(9, x)}));
  REQUIRE(schedule.kernels.size() == 1);
  return schedule.kernels[0].tree;
}

}  // namespace smelt::testing
