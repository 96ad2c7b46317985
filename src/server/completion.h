// /v1/completions, as OpenAI's API has it: a text is gone on with, no template.
#pragma once

#include "server/answer.h"
#include "server/served_model.h"

namespace smelt {

std::optional<ApiError> read_completion(const Json& body, const ServedModel& model, const Stamp& stamp,
                                        ApiRequest& request);

// Ids of a vocabulary in a list; an ApiError names the one that is none.
std::optional<ApiError> read_ids(const char* name, const Json& list, const ServedModel& model,
                                 std::vector<int32_t>& ids);

}  // namespace smelt
