// Rules of index arithmetic (i64, assumed not to overflow) that need more than a pattern:
// collecting sums, splitting them by a divisor, and comparing through bounds, symbolic sizes
// included. Each is code behind a named rule.
#pragma once

#include "graph/rewrite.h"

namespace smelt {

// collect       i * 4 + 3 + i         ->  i * 5 + 3        one order of terms, constants last
// join          x / 4 * 4 + x % 4     ->  x
// divide        (i * 256 + j) / 256   ->  i                0 <= j < 256
//               (i * S + j) / S       ->  i                j a range of size S
//               (i * 32 + j) / 64     ->  i / 2            0 <= j < 32
//               x / 4 / 8             ->  x / 32
// modulo        (i * 32 + j) % 64     ->  i % 2 * 32 + j
//               x % 12 % 4            ->  x % 4
// less          i * 32 + j < 64       ->  i < 2            0 <= j < 32
// equal, max, min: decided where bounds decide them
const RuleSet& index_rules();

}  // namespace smelt
