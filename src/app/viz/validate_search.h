// The part of a recording that `smelt tune --json` makes.
#pragma once

#include "app/viz/checked_value.h"

namespace smelt {

// Throws WrongValue. `searches`: the list of them.
void check_searches(const CheckedValue& searches);

}  // namespace smelt
