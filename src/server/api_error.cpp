#include "server/api_error.h"

#include <nlohmann/json.hpp>

namespace smelt {
namespace {

const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

nlohmann::ordered_json json_of(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", type_of(error.status)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

}  // namespace smelt
