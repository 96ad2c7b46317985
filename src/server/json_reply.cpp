#include "server/json_reply.h"

namespace smelt {

HttpResponse json_response(const Json& json, int status) {
  return {.status = status, .body = dump(json), .headers = {{"Cache-Control", "no-store"}}};
}

HttpResponse error_response(const ApiForm& form, const ApiError& error) {
  HttpResponse response = json_response(form.error(error), error.status);
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

void fail(HttpReply& reply, const ApiForm& form, const ApiError& error) { reply.send(error_response(form, error)); }

}  // namespace smelt
