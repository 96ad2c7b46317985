// The fields of a request that say how to sample, with the names of OpenAI's API and of llama.cpp's server.
#pragma once

#include "server/fields.h"
#include "server/served_model.h"

namespace smelt {

// What is absent is as the model has it. What is not supported is refused by its name.
SamplerOptions read_sampler(Fields& fields, const ServedModel& model);

}  // namespace smelt
