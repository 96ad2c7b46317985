// Which build of the program this is.
#pragma once

#include <string>

namespace smelt {

// The identity that the linker gave this program, in hex: other code, other identity. Empty where it gave none.
const std::string& build_id();

}  // namespace smelt
