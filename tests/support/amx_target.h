// This machine with AMX, for code that runs under the AmxEmulator where the machine has none.
#pragma once

#include "runtime/target.h"

namespace smelt::test {

// REQUIRES: host_target() is an x86-64.
inline CpuTarget amx_target() {
  CpuTarget target = host_target();
  target.features += ",+amx-tile,+amx-int8,+amx-bf16";
  target.amx_int8 = target.amx_bf16 = true;
  target.amx_refused = false;
  return target;
}

}  // namespace smelt::test
