// JSON schemas as grammars: every text of the grammar is a value that the schema accepts.
//
// Known are the keywords that users of OpenAI's API and llama.cpp write: type, enum, const, properties, required,
// additionalProperties, patternProperties (one), minProperties, maxProperties, items, prefixItems, minItems, maxItems,
// pattern, format, minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf,
// oneOf, allOf, $ref within the schema, $defs and definitions. Where a schema leaves open what more may come, less is
// written:
//   - an object with `properties` has no others unless `additionalProperties` asks for them; they come in that order
//   - a schema without a type, but with keywords of one, is of that type
//   - oneOf is read as anyOf
// Other keywords that would forbid something are an Error that names the place; those that only describe are passed
// over.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/json_text.h"

namespace smelt {

// The texts of one value, in the notation of `text`, which several schemas may share. References are looked up in
// `root`, which is the schema or has it inside.
Result<Grammar::Expr> add_schema(JsonText& text, const nlohmann::ordered_json& schema,
                                 const nlohmann::ordered_json& root);

Result<Grammar> read_json_schema(std::string_view text);

// Any JSON object: "JSON mode".
Grammar any_json_object();

}  // namespace smelt
