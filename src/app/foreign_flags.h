// Flags of other programs: the table is foreign_flags.def.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

// Whether the command has an option of this spelling, "-b" or "--seed".
using HasOption = std::function<bool(const std::string& spelling)>;

// The arguments of a command in smelt's spelling: `-ctk q8_0` becomes `--cache-type q8`, `-fa on` goes. An Error
// answers a flag that cannot be meant here.
Result<std::vector<std::string>> in_our_spelling(const std::vector<std::string>& arguments, const HasOption& has);

// The word of `known` that `word` is most likely a slip of; empty if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace smelt
