// One kernel of a model in all its forms, for `smelt profile --kernel`.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/profile.h"

namespace smelt {

// The kernel of that name, or the only one whose name contains it. An Error lists names where there is none or several.
Result<std::string> kernel_text(const KernelSet& kernels, const std::string& name);

}  // namespace smelt
