// What changed from one text to another, line by line.
#pragma once

#include <string>
#include <string_view>

namespace smelt {

// Lines of `before` that went with "- " in front, those that came in `after` with "+ ", and "(17 lines as before)" for
// the rest. Texts that are very long and very different are shown as all gone and all new.
std::string line_diff(std::string_view before, std::string_view after);

}  // namespace smelt
