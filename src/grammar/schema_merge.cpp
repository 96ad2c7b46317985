#include "grammar/schema_merge.h"

#include <algorithm>

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

bool has(const Json& list, const Json& item) { return std::find(list.begin(), list.end(), item) != list.end(); }

Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

Json both(const Json& a, const Json& b) {  // in a's order
  Json common = Json::array();
  for (const Json& item : as_list(a))
    if (has(as_list(b), item)) common.push_back(item);
  return common;
}

// An integer is a number.
Json common_types(const Json& a, const Json& b) {
  Json common = both(a, b);
  for (const auto& [x, y] : {std::pair(as_list(a), as_list(b)), std::pair(as_list(b), as_list(a))})
    if (has(x, "integer") && has(y, "number") && !has(common, "integer")) common.push_back("integer");
  return common;
}

Json all_of(const Json& a, const Json& b) { return Json{{"allOf", Json::array({a, b})}}; }

}  // namespace

bool only_describes(std::string_view keyword) {
  static constexpr std::string_view kWords[] = {"$schema",
                                                "$id",
                                                "$comment",
                                                "$defs",
                                                "definitions",
                                                "$anchor",
                                                "title",
                                                "description",
                                                "default",
                                                "examples",
                                                "deprecated",
                                                "example",
                                                "readOnly",
                                                "writeOnly",
                                                "contentEncoding",
                                                "discriminator",
                                                "nullable",
                                                "strict",
                                                "id",
                                                "name",
                                                "propertyOrdering",
                                                "contentMediaType",
                                                "markdownDescription"};
  return std::find(std::begin(kWords), std::end(kWords), keyword) != std::end(kWords) || keyword.starts_with("x-");
}

Result<Json> merge_schemas(const Json& a, const Json& b, const std::string& place) {
  if (a.is_boolean()) return a.get<bool>() ? b : a;
  if (b.is_boolean()) return b.get<bool>() ? a : b;
  Json merged = a;
  for (const auto& [key, value] : b.items()) {
    if (!merged.contains(key) || merged[key] == value) {
      merged[key] = value;
    } else if (key == "properties") {
      for (const auto& [name, schema] : value.items())
        merged[key][name] = merged[key].contains(name) ? all_of(merged[key][name], schema) : schema;
    } else if (key == "required") {
      for (const Json& name : value)
        if (!has(merged[key], name)) merged[key].push_back(name);
    } else if (key == "type") {
      merged[key] = common_types(merged[key], value);
    } else if (key == "enum") {
      merged[key] = both(merged[key], value);
    } else if (key == "items") {
      merged[key] = all_of(merged[key], value);
    } else if (key.starts_with("min") || key == "exclusiveMinimum") {
      merged[key] = std::max(merged[key], value);
    } else if (key.starts_with("max") || key == "exclusiveMaximum") {
      merged[key] = std::min(merged[key], value);
    } else if (!only_describes(key)) {
      return Error{"[schema] " + place + ": two schemas that both hold say different things in '" + key +
                   "'; write one schema"};
    }
  }
  const bool closes = a.contains("additionalProperties") != b.contains("additionalProperties") &&
                      a.contains("properties") && b.contains("properties");
  if (closes && merged["additionalProperties"] == false)
    return Error{"[schema] " + place +
                 ": 'additionalProperties' of one of several schemas that all hold forbids what the "
                 "others name; write one schema"};
  return merged;
}

}  // namespace smelt
