// ApiForm: what the APIs differ in besides their answers: errors, and the frame of a stream.
#pragma once

#include "server/api_error.h"
#include "server/fields.h"

namespace smelt {

struct ApiForm {
  Json (*error)(const ApiError& error);
  const char* error_event;  // its name in a stream; empty: it has none
  const char* ping;         // what a stream sends while there is nothing to send
  const char* end;          // and behind all else
};

extern const ApiForm kOpenAi;     // chat completions and completions, and whatever is nobody's
extern const ApiForm kResponses;  // OpenAI's responses
extern const ApiForm kAnthropic;

}  // namespace smelt
