// Where smelt keeps its own files, by the XDG rules.
#pragma once

#include <string>

#include "base/result.h"

namespace smelt {

// The cache folder: SMELT_CACHE, else $XDG_CACHE_HOME/smelt, else ~/.cache/smelt. Made where it is
// missing. An empty text: no cache is wanted (SMELT_CACHE=off). A folder that belongs to another
// user, or that others may write to, is an error, since what lies in it is run as code.
Result<std::string> cache_folder();

// An Error if a folder that is there belongs to another user, or if others may write to it. `what` begins the sentence:
// "[cache] ".
Status check_own_folder(const std::string& path, const std::string& what);

}  // namespace smelt
