#include "server/settings.h"

#include <cstdint>

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "server/sampling_fields.h"

namespace smelt {
namespace {

constexpr size_t kMostStops = 16, kLongestStop = 256;
constexpr int64_t kMostAnswers = 128;

void refuse_what_is_missing(Fields& fields) {
  fields.refuse("best_of", 1, "use n");
  fields.refuse("functions", Json::array(), "use tools");
}

void hold_to(const char* field, const std::string& source, const ServedModel::MakeGrammar& make, Fields& fields,
             const ServedModel& model, GenerationRequest& generation) {
  if (fields.problem()) return;
  if (auto masks = model.masks(source, make))
    generation.grammar = masks.take();
  else
    fields.fail(field, plain_message(masks.error()));
}

// response_format, or llama-server's json_schema and grammar.
void read_grammar(Fields& fields, const ServedModel& model, Settings& settings) {
  const Json* format = fields.find("response_format");
  const Json* schema = fields.find("json_schema");
  const std::string gbnf = fields.text("grammar", "");
  const std::string type = format && format->is_object() ? format->value("type", "") : format ? "?" : "text";
  if ((type != "text") + (schema != nullptr) + !gbnf.empty() > 1)
    fields.fail("response_format", "give one of response_format, json_schema and grammar");
  if (schema) return hold_to_schema("json_schema", *schema, fields, model, settings);
  if (!gbnf.empty())
    return hold_to(
        "grammar", "gbnf " + gbnf, [&](const TokenTable&) { return read_gbnf(gbnf); }, fields, model,
        settings.generation);
  if (type == "text") return;
  const Json none;
  if (type == "json_object") {
    const auto given = format->find("schema");
    return hold_to_schema("response_format", given == format->end() ? none : *given, fields, model, settings);
  }
  if (type != "json_schema") return fields.fail("response_format", "its type is text, json_object or json_schema");
  const auto named = format->find("json_schema");
  if (named == format->end() || !named->is_object() || !named->contains("schema"))
    return fields.fail("response_format", "json_schema.schema is missing");
  hold_to_schema("response_format", (*named)["schema"], fields, model, settings);
}

ApiError too_long(const std::string& tokens, const ServedModel& model) {
  return {.message = "the prompt has " + tokens + " tokens, and the context of this server has " +
                     std::to_string(model.context()) +
                     "; make the prompt shorter, or start the server with a larger -c",
          .param = "prompt",
          .code = "context_length_exceeded"};
}

}  // namespace

std::string plain_message(const Error& error) {
  const std::string& text = error.message;
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::vector<std::string> read_stops(Fields& fields, const char* name) {
  return fields.texts(name, kMostStops, kLongestStop);
}

int64_t read_answer_count(Fields& fields) { return fields.whole("n", 1, kMostAnswers, 1); }

Settings read_settings(Fields& fields, const ServedModel& model, int64_t max_tokens) {
  Settings settings;
  refuse_what_is_missing(fields);
  settings.generation.sampler = read_sampler(fields, model);
  const int64_t most = int64_t{1} << 30;
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"})
    max_tokens = fields.whole(name, -1, most, max_tokens);
  settings.generation.max_tokens = max_tokens;
  settings.stops = read_stops(fields, "stop");
  settings.stream = fields.flag("stream", false);
  if (const Json* options = fields.find("stream_options")) {
    if (!options->is_object()) fields.fail("stream_options", "expected an object");
    if (options->is_object() && options->contains("include_usage"))
      settings.stream_usage = (*options)["include_usage"] == true;
  }
  read_grammar(fields, model, settings);
  return settings;
}

void hold_to_schema(const char* field, const Json& schema, Fields& fields, const ServedModel& model,
                    Settings& settings) {
  const std::string text = schema.dump();
  const auto make = [&](const TokenTable&) -> Result<Grammar> {
    if (schema.is_null()) return any_json_object();
    return read_json_schema(text);
  };
  hold_to(field, "schema " + text, make, fields, model, settings.generation);
  settings.schema = schema;
}

std::optional<ApiError> check_text(std::string_view text, const ServedModel& model) {
  if (text.size() <= model.longest_text()) return std::nullopt;
  return too_long("more than " + std::to_string(model.context()), model);
}

std::optional<ApiError> check_prompt(const std::vector<int32_t>& prompt, const ServedModel& model) {
  if (prompt.empty()) return ApiError{.message = "the prompt is empty; write something", .param = "prompt"};
  if (static_cast<int64_t>(prompt.size()) < model.context()) return std::nullopt;
  return too_long(std::to_string(prompt.size()), model);
}

}  // namespace smelt
