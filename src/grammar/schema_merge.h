// Several schemas that all hold, as one: allOf, and keywords beside $ref and anyOf.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace smelt {

// An Error where one schema cannot say it. `place` stands in it: "/properties/a".
Result<nlohmann::ordered_json> merge_schemas(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b,
                                             const std::string& place);

// What forbids nothing: title, description, default ...
bool only_describes(std::string_view keyword);

}  // namespace smelt
