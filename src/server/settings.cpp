#include "server/settings.h"

#include <cstdint>
#include <random>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"

namespace smelt {
namespace {

constexpr size_t kMostStops = 16, kLongestStop = 256;

SamplerOptions read_sampler(Fields& fields, SamplerOptions s) {
  s.temperature = static_cast<float>(fields.number("temperature", 0, 100, s.temperature));
  s.top_k = static_cast<int32_t>(fields.whole("top_k", -1, INT32_MAX, s.top_k));
  s.top_p = static_cast<float>(fields.number("top_p", 0, 1, s.top_p));
  s.min_p = static_cast<float>(fields.number("min_p", 0, 1, s.min_p));
  s.repeat_penalty = static_cast<float>(fields.number("repeat_penalty", 0.01, 100, s.repeat_penalty));
  s.repeat_last_n = static_cast<int32_t>(fields.whole("repeat_last_n", -1, INT32_MAX, s.repeat_last_n));
  const int64_t seed = fields.whole("seed", INT64_MIN, INT64_MAX, -1);
  s.seed = seed == -1 ? std::random_device{}() : static_cast<uint64_t>(seed);
  return s;
}

void refuse_what_is_missing(Fields& fields) {
  fields.refuse("n", 1, "ask once for each answer");
  fields.refuse("best_of", 1, "ask once for each answer");
  fields.refuse("logprobs", false, "leave it out");
  fields.refuse("top_logprobs", 0, "leave it out");
  fields.refuse("logit_bias", Json::object(), "leave it out");
  fields.refuse("presence_penalty", 0, "use repeat_penalty");
  fields.refuse("frequency_penalty", 0, "use repeat_penalty");
  fields.refuse("functions", Json::array(), "use tools");
}

// The grammar of response_format, or of llama-server's json_schema and grammar.
std::optional<Result<Grammar>> read_grammar(Fields& fields) {
  const Json* format = fields.find("response_format");
  const Json* schema = fields.find("json_schema");
  const std::string gbnf = fields.text("grammar", "");
  const std::string type = format && format->is_object() ? format->value("type", "") : format ? "?" : "text";
  if ((type != "text") + (schema != nullptr) + !gbnf.empty() > 1)
    fields.fail("response_format", "give one of response_format, json_schema and grammar");
  if (schema) return read_json_schema(schema->dump());
  if (!gbnf.empty()) return read_gbnf(gbnf);
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    if (format->contains("schema")) return read_json_schema((*format)["schema"].dump());
    return any_json_object();
  }
  if (type == "json_schema") {
    const auto named = format->find("json_schema");
    if (named != format->end() && named->is_object() && named->contains("schema"))
      return read_json_schema((*named)["schema"].dump());
    fields.fail("response_format", "json_schema.schema is missing");
    return std::nullopt;
  }
  fields.fail("response_format", "its type is text, json_object or json_schema");
  return std::nullopt;
}

}  // namespace

std::string plain_message(const Error& error) {
  const std::string& text = error.message;
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

Settings read_settings(Fields& fields, const ServedModel& model, int64_t max_tokens) {
  Settings settings;
  refuse_what_is_missing(fields);
  settings.sampler = read_sampler(fields, model.sampling());
  const int64_t most = int64_t{1} << 30;
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"})
    max_tokens = fields.whole(name, -1, most, max_tokens);
  settings.max_tokens = max_tokens;
  settings.stops = fields.texts("stop", kMostStops, kLongestStop);
  settings.stream = fields.flag("stream", false);
  if (const Json* options = fields.find("stream_options")) {
    if (!options->is_object()) fields.fail("stream_options", "expected an object");
    if (options->is_object() && options->contains("include_usage"))
      settings.stream_usage = (*options)["include_usage"] == true;
  }
  if (auto grammar = read_grammar(fields); grammar && !fields.problem()) {
    auto masks = *grammar ? model.masks(**grammar) : Result<std::shared_ptr<const TokenMasks>>(grammar->error());
    if (masks)
      settings.grammar = masks.take();
    else
      fields.fail("response_format", plain_message(masks.error()));
  }
  return settings;
}

std::optional<ApiError> check_prompt(const std::vector<int32_t>& prompt, const ServedModel& model) {
  if (prompt.empty()) return ApiError{.message = "the prompt is empty; write something", .param = "prompt"};
  if (static_cast<int64_t>(prompt.size()) < model.context()) return std::nullopt;
  return ApiError{.message = "the prompt has " + std::to_string(prompt.size()) +
                             " tokens, and the context of this server has " + std::to_string(model.context()) +
                             "; make the prompt shorter, or start the server with a larger -c",
                  .param = "prompt",
                  .code = "context_length_exceeded"};
}

}  // namespace smelt
