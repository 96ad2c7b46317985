// JSON as an answer of HTTP.
#pragma once

#include <memory>

#include "server/api_form.h"
#include "server/http.h"

namespace smelt {

HttpResponse json_response(const Json& json, int status = 200);

// In the form of the API that the request came by.
HttpResponse error_response(const ApiForm& form, const ApiError& error);
void fail(HttpReply& reply, const ApiForm& form, const ApiError& error);

}  // namespace smelt
