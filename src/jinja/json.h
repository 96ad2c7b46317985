// Values to JSON, as json.dumps of Python writes it, and from the JSON of a request.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "jinja/value.h"

namespace smelt::jinja {

struct JsonStyle {
  bool ascii = false;  // \u escapes for all that is not ASCII
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; none: all in one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Throws TemplateError for what JSON does not have.
Text to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style);

// Every string in it, keys included, is of this origin. Throws TemplateError where it is nested too deep.
Value from_json(const nlohmann::ordered_json& json, Text::Origin origin);

}  // namespace smelt::jinja
