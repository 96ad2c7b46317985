#include "safetensors/config_reader.h"

#include <cmath>

#include "base/printable.h"
#include "safetensors/tensor_table.h"

namespace smelt {

std::string shown(const nlohmann::json& value) {
  return value.is_primitive() ? printable(value.dump(), 40) : value.type_name();
}

const nlohmann::json& ConfigReader::at(const char* key) const {
  static const nlohmann::json null;
  for (const nlohmann::json* json : {&json_, &defaults_})
    if (json->is_object() && json->contains(key) && !json->at(key).is_null()) return json->at(key);
  return null;
}

double ConfigReader::real(const char* key) {
  const nlohmann::json& value = at(key);
  return value.is_number() && std::isfinite(value.get<double>()) ? value.get<double>() : missing(key);
}

std::string ConfigReader::text_or(const char* key, const std::string& fallback) const {
  return at(key).is_string() ? at(key).get<std::string>() : fallback;
}

bool ConfigReader::flag_or(const char* key, bool fallback) const {
  return at(key).is_boolean() ? at(key).get<bool>() : fallback;
}

void ConfigReader::refuse(const std::string& what) {
  if (!error_) error_ = safetensors_error("config.json", what);
}

void ConfigReader::keep(const Status& status) {
  if (!error_ && !status) error_ = status.error();
}

uint32_t ConfigReader::whole_at(const char* key) {
  const nlohmann::json& value = at(key);
  if (value.is_number_unsigned() && value.get<uint64_t>() <= UINT32_MAX) return value.get<uint32_t>();
  refuse(std::string(key) + " is " + shown(value) + ", no whole number");
  return 1;
}

uint32_t ConfigReader::missing(const char* key) {
  refuse(std::string(key) + " is missing, or no number");
  return 1;
}

}  // namespace smelt
