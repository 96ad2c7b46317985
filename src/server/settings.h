// The settings of a generation that the APIs have in common: sampling, lengths, stops, and what the text has to be.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer.h"
#include "server/served_model.h"

namespace smelt {

struct Settings {
  GenerationRequest generation;  // all but the prompt and its stops
  std::vector<std::string> stops;
  std::optional<Json> schema;  // of the content, where it is what the grammar of `generation` was made of
  bool stream = false, stream_usage = false;
};

// What is absent is as the model has it. What would change the answer and is not supported is refused by its name.
Settings read_settings(Fields& fields, const ServedModel& model, int64_t max_tokens);

// How many answers OpenAI's older two APIs are asked for.
int64_t read_answer_count(Fields& fields);

// Stop strings of a field with that name.
std::vector<std::string> read_stops(Fields& fields, const char* name);

// A JSON schema (null: any object) as what the text has to be. `field`: where it came from.
void hold_to_schema(const char* field, const Json& schema, Fields& fields, const ServedModel& model,
                    Settings& settings);

// Without the "[tag] " in front, which means nothing to clients.
std::string plain_message(const Error& error);

// An ApiError where a text is so long that it need not be made into tokens to know that it has too many. That would
// hold up all clients: it is done on the thread that talks to them.
std::optional<ApiError> check_text(std::string_view text, const ServedModel& model);

// An ApiError where a prompt is empty or leaves no room in the context.
std::optional<ApiError> check_prompt(const std::vector<int32_t>& prompt, const ServedModel& model);

}  // namespace smelt
