#include "server/api_form.h"

namespace smelt {
namespace {

const char* openai_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

const char* anthropic_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 413) return "request_too_large";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "overloaded_error";
  return status >= 500 ? "api_error" : "invalid_request_error";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json openai_error(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", openai_type(error.status)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

Json responses_error(const ApiError& error) {
  Json json = {{"type", "error"}};
  json.update(openai_error(error));
  return json;
}

Json anthropic_error(const ApiError& error) {
  return {{"type", "error"}, {"error", {{"type", anthropic_type(error.status)}, {"message", error.message}}}};
}

constexpr const char* kComment = ": ping\n\n";  // which clients pass over

}  // namespace

const ApiForm kOpenAi{openai_error, "", kComment, "data: [DONE]\n\n"};
const ApiForm kResponses{responses_error, "error", kComment, ""};
const ApiForm kAnthropic{anthropic_error, "error", "event: ping\ndata: {\"type\": \"ping\"}\n\n", ""};

}  // namespace smelt
