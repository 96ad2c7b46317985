// The advisor: why a kernel is slower than this machine allows, in words, with the evidence.
#pragma once

#include <string>
#include <vector>

#include "app/profile_data.h"

namespace smelt {

// Causes, the most telling first; none for a kernel that is fast, or that costs too little of the plan to matter.
std::vector<std::string> advice_on(const ProfiledKernel& kernel, const MachineRates& machine, double plan_seconds);

}  // namespace smelt
