// `smelt profile`: where the time of a token and of a prompt goes, kernel by kernel.
#pragma once

#include <string>
#include <vector>

#include "app/profile_run.h"

namespace smelt {

struct ProfileFlags : ProfiledFlags {
  bool all = false;      // every kernel, however cheap
  bool details = false;  // of each kernel
  bool what_if = false;  // show other forms of the blocks instead
  std::string kernel;    // show this one in all its forms instead of timing
  std::string trace;     // paths; empty: none
  std::string json;
  std::vector<std::string> compare;  // two saved profiles
};

Result<int> run_profile(const ProfileFlags& flags);

}  // namespace smelt
