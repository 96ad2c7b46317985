// Reads a config.json key by key and remembers the first error, so that a list of keys reads like one. What is returned
// after an error is in its range and means nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace smelt {

// A value in an error; only the kind of one that may be deep.
std::string shown(const nlohmann::json& value);

class ConfigReader {
 public:
  // `defaults`: of keys that `json` lacks. REQUIRES: both outlive this.
  explicit ConfigReader(const nlohmann::json& json) : ConfigReader(json, json) {}
  ConfigReader(const nlohmann::json& json, const nlohmann::json& defaults) : json_(json), defaults_(defaults) {}

  const nlohmann::json& json() const { return json_; }
  // Null stands for a key that is not there, and is what at() gives of one.
  bool has(const char* key) const { return !at(key).is_null(); }
  const nlohmann::json& at(const char* key) const;

  // From 0 on.
  uint32_t whole(const char* key) { return has(key) ? whole_at(key) : missing(key); }
  uint32_t whole_or(const char* key, uint32_t fallback) { return has(key) ? whole_at(key) : fallback; }
  double real(const char* key);
  double real_or(const char* key, double fallback) { return has(key) ? real(key) : fallback; }
  std::string text_or(const char* key, const std::string& fallback) const;
  bool flag_or(const char* key, bool fallback) const;

  void refuse(const std::string& what);
  void keep(const Status& status);  // the error of another reader
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  uint32_t whole_at(const char* key);
  uint32_t missing(const char* key);

  const nlohmann::json &json_, &defaults_;
  std::optional<Error> error_;
};

}  // namespace smelt
