// A machine as it would be with other numbers, for whoever asks what a number of its description is worth:
// "h200,local_operations=81920,tasks=264" is h200 with two fields of machine.def changed.
#pragma once

#include <string>
#include <string_view>

#include "base/machine.h"
#include "base/result.h"

namespace smelt {

// A name as the user gives it, cut at its first comma.
struct ChangedName {
  std::string name;     // "h200"
  std::string changes;  // "local_operations=81920,tasks=264"; empty: none
};
ChangedName split_changes(std::string_view text);

// Sets the fields that `changes` names; "matrix_units=0" leaves none of these, or as many as it says. An Error if a
// field is not there, or is no number.
Status change(Machine& machine, std::string_view changes);

}  // namespace smelt
