// Looking into JSON of any form: what is not there is null.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace smelt {

inline const nlohmann::json& at_or_null(const nlohmann::json& json, const char* key) {
  static const nlohmann::json null;
  return json.is_object() && json.contains(key) ? json.at(key) : null;
}

inline std::string text_of(const nlohmann::json& json) {
  return json.is_string() ? json.get<std::string>() : std::string();
}

constexpr int kDeepestPart = 8;  // parts within parts that are looked at

}  // namespace smelt
