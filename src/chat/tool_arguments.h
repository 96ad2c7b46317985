// Arguments of tools as grammars, in the notations of the families.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/json_text.h"

namespace smelt {

struct Tool {
  std::string name;
  nlohmann::ordered_json parameters;  // a schema; null: it takes none
  bool is_strict = false;
};

// From the list of a chat, in OpenAI's shape or as functions alone.
Result<std::vector<Tool>> read_tools(const nlohmann::ordered_json& tools);

// A schema with the properties of all its objects in the order of their names, whatever their case.
nlohmann::ordered_json in_order_of_names(const nlohmann::ordered_json& schema);

// All arguments as one object.
Result<Grammar::Expr> object_of_arguments(JsonText& text, const Tool& tool);

// One after the other, between tags. Those whose type is "string" stand as they are, all others as JSON.
struct ArgumentTags {
  Grammar::Expr before_name, before_value, behind_value;
  std::optional<Grammar::Expr> before_text = {};  // in place of before_value, where a value stands as it is
};
Result<Grammar::Expr> tagged_arguments(JsonText& plain, JsonText& json, const Tool& tool, const ArgumentTags& tags);

}  // namespace smelt
