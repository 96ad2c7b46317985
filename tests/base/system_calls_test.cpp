// The calls of this system.
#define SYSTEM "this system"
#include "base/system_calls_cases.h"
