// Output that is seen as it is made, also where Ctrl-C interrupts the system while it is written.
#pragma once

#include <string_view>

#include "base/result.h"

namespace smelt {

// False once standard output takes no more; nothing is written from then on.
bool print_now(std::string_view text);

// An Error if some of what was printed did not get through.
Status all_printed();

}  // namespace smelt
