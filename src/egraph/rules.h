// What is equal to what: the laws of linear maps, of choosing among matrices, and of movement. None of them says which
// side is better; that is for extraction. Equal means up to the rounding of sums in another order.
#pragma once

#include "egraph/saturate.h"

namespace smelt::egraph {

// Contractions: such that share a side, products of maps, blocks of rows and of columns.
const std::vector<Rule>& linear_rules();
// Experts: before, after, or from a copy.
const std::vector<Rule>& choice_rules();
// Movement of movement. Without them the other rules hide from each other.
const std::vector<Rule>& movement_rules();

std::vector<Rule> all_rules();

}  // namespace smelt::egraph
