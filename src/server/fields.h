// Fields: reads the fields of a JSON object that a client sent, each with its type and bounds. The first one that is
// not as it should be is kept; reading goes on, so that who reads asks once, at the end.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"

namespace smelt {

using Json = nlohmann::ordered_json;

class Fields {
 public:
  // REQUIRES: `object` is one and outlives this.
  explicit Fields(const Json& object) : object_(object) {}

  // null counts as absent.
  const Json* find(const char* name) const;
  bool flag(const char* name, bool otherwise);
  double number(const char* name, double least, double most, double otherwise);
  int64_t whole(const char* name, int64_t least, int64_t most, int64_t otherwise);
  std::string text(const char* name, std::string otherwise);
  // A string, or a list of some; each of at most `longest` bytes and none empty.
  std::vector<std::string> texts(const char* name, size_t most, size_t longest);

  // What would change the answer and is not there: refused unless it is absent or `harmless`.
  void refuse(const char* name, const Json& harmless, const char* advice);
  void fail(const char* name, const std::string& message);
  const std::optional<ApiError>& problem() const { return problem_; }

 private:
  const Json& object_;
  std::optional<ApiError> problem_;
};

// The text of a field; empty where there is none.
std::string text_field(const Json& object, const char* name);

// What is said of a field that is not as it should be.
ApiError wrong(const char* field, const std::string& what);

// The JSON object of a body. An ApiError: it is none, or nested more than 128 times.
std::optional<ApiError> parse_object(const std::string& body, Json& object);

// As text that is valid UTF-8, whatever a model wrote.
std::string dump(const Json& json);

}  // namespace smelt
