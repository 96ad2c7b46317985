// What other programs and files say to a command.
#pragma once

#include <string>

#include "base/result.h"

namespace smelt {

// All of standard input; nothing where it is a terminal.
Result<std::string> piped_text();

}  // namespace smelt
