// ApiError: why a request is not answered, with the status of HTTP.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace smelt {

struct ApiError {
  int status = 400;
  std::string message;     // one sentence: the field, its value, what to do
  std::string param = {};  // the field
  std::string code = {};   // "context_length_exceeded"
};

// As OpenAI's API has it: {"error": {"message", "type", "param", "code"}}.
nlohmann::ordered_json json_of(const ApiError& error);

}  // namespace smelt
