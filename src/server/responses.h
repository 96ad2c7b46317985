// /v1/responses, as OpenAI's API has it: text and function tools. Nothing is kept between requests.
#pragma once

#include "server/answer.h"
#include "server/served_model.h"

namespace smelt {

std::optional<ApiError> read_responses(const Json& body, const ServedModel& model, const Stamp& stamp,
                                       ApiRequest& understood);

}  // namespace smelt
