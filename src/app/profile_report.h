// Profiles as text for people.
#pragma once

#include <string>

#include "app/profile_data.h"

namespace smelt {

struct ReportOptions {
  bool details = false;  // of each kernel: what it computes in full, options, advice
  int kernels = 20;      // of each plan, costliest first; 0: all
};

std::string report(const Profile& profile, const ReportOptions& options = {});

// What became of each kernel and stage from one profile to the other.
std::string comparison(const Profile& before, const Profile& after);

}  // namespace smelt
