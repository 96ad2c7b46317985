// The settings of a generation that the APIs have in common: sampling, lengths, stops, and what the text has to be.
#pragma once

#include <string>
#include <vector>

#include "server/answer.h"
#include "server/served_model.h"

namespace smelt {

struct Settings {
  SamplerOptions sampler;
  int64_t max_tokens = -1;
  std::vector<std::string> stops;
  std::shared_ptr<const TokenMasks> grammar;
  bool stream = false, stream_usage = false;
};

// What is absent is as the model has it. What would change the answer and is not supported is refused by its name.
Settings read_settings(Fields& fields, const ServedModel& model, int64_t max_tokens);

// Without the "[tag] " in front, which means nothing to clients.
std::string plain_message(const Error& error);

// An ApiError where a prompt is empty or leaves no room in the context.
std::optional<ApiError> check_prompt(const std::vector<int32_t>& prompt, const ServedModel& model);

}  // namespace smelt
