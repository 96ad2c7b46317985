// The known machines by kind: a test that compiles a model for each of them does so once for those that differ in
// figures alone.
#pragma once

#include <algorithm>
#include <vector>

#include "base/machine.h"

namespace smelt::test {

inline std::vector<Machine> machine_kinds() {
  std::vector<Machine> kinds;
  for (const Machine& m : known_machines()) {
    const auto is_like = [&](const Machine& k) {
      return k.isa == m.isa && k.byte_dot == m.byte_dot && k.matrix_units.size() == m.matrix_units.size();
    };
    if (std::none_of(kinds.begin(), kinds.end(), is_like)) kinds.push_back(m);
  }
  return kinds;
}

}  // namespace smelt::test
