// The marks around calls, for formats that have calls in the middle of the text.
#pragma once

#include <string_view>
#include <vector>

#include "chat/output_format.h"

namespace smelt {

inline constexpr std::string_view kFunctionMark = "<function=";  // which is the begin of a call's name, too

struct CallMarks {
  std::vector<std::string_view> begins, ends;
  std::vector<std::string_view> ignored;  // around calls and answers, without a meaning of their own
};

CallMarks call_marks(CallStyle style);

}  // namespace smelt
