// The names of plans: in recordings, in reports of the tuner, and where a kernel is shown.
#pragma once

#include "engine/profile.h"

namespace smelt {

inline const char* plan_name(PlanKind plan) {
  switch (plan) {
    case PlanKind::Decode: return "decode";
    case PlanKind::MiddleDecode: return "decode of a context of middle length";
    case PlanKind::LongDecode: return "decode of a long context";
    case PlanKind::WideDecode: return "decode of the longest contexts";
    case PlanKind::Prefill: return "prefill";
    case PlanKind::LongPrefill: return "prefill of many tokens";
    case PlanKind::Head: return "head";
  }
  return "";
}

}  // namespace smelt
