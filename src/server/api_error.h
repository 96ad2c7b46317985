// ApiError: why a request is not answered, with the status of HTTP. How a client is told so: api_form.h.
#pragma once

#include <string>

namespace smelt {

struct ApiError {
  int status = 400;
  std::string message;     // one sentence: the field, its value, what to do
  std::string param = {};  // the field
  std::string code = {};   // "context_length_exceeded"
};

}  // namespace smelt
