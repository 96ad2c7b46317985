#include "grammar/json_schema.h"

#include <algorithm>
#include <map>
#include <set>

#include "grammar/json_lists.h"
#include "grammar/json_text.h"
#include "grammar/numbers.h"
#include "grammar/schema_merge.h"
#include "grammar/string_formats.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;
using Expr = Grammar::Expr;

constexpr const char* kTypes[] = {"string", "number", "integer", "object", "array", "boolean", "null"};

// The keywords of each type; what is in no list and does not only describe is not known.
struct Keyword {
  const char *name, *type;
};
constexpr Keyword kKeywords[] = {{"properties", "object"},
                                 {"required", "object"},
                                 {"additionalProperties", "object"},
                                 {"patternProperties", "object"},
                                 {"minProperties", "object"},
                                 {"maxProperties", "object"},
                                 {"items", "array"},
                                 {"prefixItems", "array"},
                                 {"minItems", "array"},
                                 {"maxItems", "array"},
                                 {"uniqueItems", "array"},
                                 {"pattern", "string"},
                                 {"format", "string"},
                                 {"minLength", "string"},
                                 {"maxLength", "string"},
                                 {"minimum", "number"},
                                 {"maximum", "number"},
                                 {"exclusiveMinimum", "number"},
                                 {"exclusiveMaximum", "number"},
                                 {"multipleOf", "number"}};

const char* type_of_keyword(std::string_view name) {
  for (const Keyword& k : kKeywords)
    if (name == k.name) return k.type;
  return nullptr;
}

const char* type_of_value(const Json& value) {
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_boolean() ? "boolean" : "null";
}

class Reader {
 public:
  Reader(JsonText& text, const Json& root) : grammar_(text.grammar()), text_(text), root_(root) {}

  Result<Expr> schema(const Json& schema, const std::string& place, int depth) {
    if (depth > kDeepestGrammar)
      return error(place, "more than " + std::to_string(kDeepestGrammar) + " schemas inside of each other");
    if (schema.is_boolean()) return schema.get<bool>() ? text_.value() : Grammar::kNothing;
    if (!schema.is_object()) return error(place, "a schema is an object, true or false");
    for (const char* combiner : {"allOf", "$ref", "anyOf", "oneOf"})
      if (schema.contains(combiner)) return combined(schema, combiner, place, depth);
    SMELT_CHECK(check_keywords(schema, place));
    if (schema.contains("const")) return literal(schema["const"], schema);
    if (schema.contains("enum")) return enumeration(schema, place);
    return typed(schema, place, depth);
  }

 private:
  static Error error(const std::string& place, const std::string& problem) {
    return {"[schema] " + (place.empty() ? "/" : place) + ": " + problem};
  }

  Status check_keywords(const Json& schema, const std::string& place) const {
    const bool is_listed = schema.contains("enum") || schema.contains("const");
    for (const auto& [key, value] : schema.items()) {
      if (key == "type" || key == "enum" || key == "const" || only_describes(key)) continue;
      if (!type_of_keyword(key)) return error(place, "the keyword '" + key + "' is not supported");
      if (is_listed)
        return error(place, "'" + key + "' beside 'enum' or 'const' is not supported; list what it leaves");
    }
    if (schema.value("uniqueItems", Json(false)) == true)
      return error(place, "the keyword 'uniqueItems' is not supported");
    return {};
  }

  // --- several schemas

  Result<Expr> combined(const Json& schema, const std::string& combiner, const std::string& place, int depth) {
    Json rest = schema;
    rest.erase(combiner);
    const std::string inside = place + "/" + combiner;
    if (combiner == "$ref") {
      const bool is_alone =
          std::all_of(rest.items().begin(), rest.items().end(), [](const auto& i) { return only_describes(i.key()); });
      if (!schema["$ref"].is_string()) return error(inside, "a reference is a string");
      const std::string pointer = schema["$ref"];
      SMELT_TRY(target, find(pointer, inside));
      if (is_alone) return referenced(pointer, *target, depth);
      SMELT_TRY(merged, merge_schemas(*target, rest, place));
      return this->schema(merged, place, depth + 1);
    }
    const Json& parts = schema[combiner];
    if (!parts.is_array() || parts.empty()) return error(inside, "a list of at least one schema is expected");
    if (combiner == "allOf") {
      Json merged = rest;
      for (const Json& part : parts) {
        Json resolved = part;
        if (part.is_object() && part.contains("$ref") && part["$ref"].is_string()) {
          SMELT_TRY(target, find(part["$ref"].get<std::string>(), inside));
          resolved.erase("$ref");
          SMELT_TRY(joined, merge_schemas(*target, resolved, inside));
          resolved = joined;
        }
        SMELT_TRY(joined, merge_schemas(merged, resolved, inside));
        merged = joined;
      }
      return this->schema(merged, place, depth + 1);
    }
    std::vector<Expr> choices;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string at = inside + "/" + std::to_string(i);
      if (parts[i].is_object() && parts[i].contains("$ref") && rest.empty()) {
        SMELT_TRY(choice, this->schema(parts[i], at, depth + 1));
        choices.push_back(choice);
        continue;
      }
      SMELT_TRY(merged, merge_schemas(rest, parts[i], at));
      SMELT_TRY(choice, this->schema(merged, at, depth + 1));
      choices.push_back(choice);
    }
    return grammar_.choice(std::move(choices));
  }

  Result<const Json*> find(const std::string& pointer, const std::string& place) const {
    if (!pointer.starts_with('#')) return error(place, "only references within the schema (#/...) are followed");
    try {
      return &root_.at(Json::json_pointer(pointer.substr(1)));
    } catch (const Json::exception&) {
      return error(place, "'" + pointer + "' is not in the schema");
    }
  }

  // One rule for each schema that is referred to, so that it may contain itself.
  Result<Expr> referenced(const std::string& pointer, const Json& target, int depth) {
    const auto known = references_.find(pointer);
    if (known != references_.end()) return grammar_.use(known->second);
    const int rule = grammar_.add_rule(pointer);
    references_.emplace(pointer, rule);
    const auto body = schema(target, pointer.substr(1), depth + 1);
    grammar_.define(rule, body ? *body : Grammar::kNothing);
    if (!body) return body;
    return grammar_.use(rule);
  }

  // --- values that are written out

  static bool has_type(const Json& schema, const std::string& type) {
    if (!schema.contains("type")) return true;
    const Json& types = schema["type"];
    const auto is = [&](const Json& t) { return t == type || (t == "number" && type == "integer"); };
    return types.is_array() ? std::any_of(types.begin(), types.end(), is) : is(types);
  }

  Expr literal(const Json& value, const Json& schema) {
    if (!has_type(schema, type_of_value(value))) return Grammar::kNothing;
    return text_.literal(value);
  }

  Result<Expr> enumeration(const Json& schema, const std::string& place) {
    if (!schema["enum"].is_array()) return error(place, "'enum' is a list of values");
    std::vector<Expr> choices;
    for (const Json& value : schema["enum"]) choices.push_back(literal(value, schema));
    return grammar_.choice(std::move(choices));
  }

  // --- values of a type

  Result<Expr> typed(const Json& schema, const std::string& place, int depth) {
    std::vector<std::string> types;
    if (schema.contains("type")) {
      const Json list = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      for (const Json& t : list) {
        if (!t.is_string() || std::find(std::begin(kTypes), std::end(kTypes), t.get<std::string>()) == std::end(kTypes))
          return error(place, "type " + t.dump() + " is none of JSON's");
        types.push_back(t);
      }
    } else {
      for (const auto& [key, value] : schema.items())
        if (const char* type = type_of_keyword(key); type && std::find(types.begin(), types.end(), type) == types.end())
          types.push_back(type);
      if (types.empty()) return text_.value();
    }
    std::vector<Expr> choices;
    for (const std::string& type : types) {
      SMELT_TRY(choice, of_type(type, schema, place, depth));
      choices.push_back(choice);
    }
    return grammar_.choice(std::move(choices));
  }

  Result<Expr> of_type(const std::string& type, const Json& schema, const std::string& place, int depth) {
    if (type == "string") return string(schema, place);
    if (type == "number" || type == "integer") return number(schema, place, type == "integer");
    if (type == "object") return object(schema, place, depth);
    if (type == "array") return array(schema, place, depth);
    if (type == "boolean") return grammar_.choice({grammar_.literal("true"), grammar_.literal("false")});
    return grammar_.literal("null");
  }

  // A count that a keyword gives; `absent` without it.
  Result<int> count(const Json& schema, const char* keyword, int absent, const std::string& place) const {
    if (!schema.contains(keyword)) return absent;
    const Json& value = schema[keyword];
    const bool is_whole = value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMostPositions &&
                          value.get<double>() == static_cast<int>(value.get<double>());
    if (!is_whole)
      return error(place, std::string("'") + keyword + "' is " + value.dump() + "; a whole number up to " +
                              std::to_string(kMostPositions) + " is expected");
    return static_cast<int>(value.get<double>());
  }

  Result<Expr> string(const Json& schema, const std::string& place) {
    SMELT_TRY(least, count(schema, "minLength", 0, place));
    SMELT_TRY(most, count(schema, "maxLength", -1, place));
    if (most >= 0 && most < least) return Grammar::kNothing;
    const bool has_length = least > 0 || most >= 0;
    const char* format = schema.contains("format") && schema["format"].is_string()
                             ? string_format(schema["format"].get<std::string>())
                             : nullptr;
    if (!schema.contains("pattern") && !format)
      return has_length ? text_.string_of_length(least, most) : text_.string();
    if (schema.contains("pattern") && format) return error(place, "'pattern' beside 'format' is not supported");
    if (!format && !schema["pattern"].is_string()) return error(place, "'pattern' is not a string");
    auto language = format ? read_regex(format, false) : read_regex(schema["pattern"].get<std::string>(), true);
    if (language && has_length) language = with_length(*language, least, most);
    if (!language) return error(place, language.error().message);
    return text_.text(*language);
  }

  static Result<std::optional<Decimal>> decimal(const Json& schema, const char* keyword, const std::string& place) {
    if (!schema.contains(keyword)) return std::optional<Decimal>();
    const Json& value = schema[keyword];
    const auto decimal = value.is_number() ? Decimal::from(value.dump()) : std::nullopt;
    if (!decimal) return error(place, std::string("'") + keyword + "' is " + value.dump() + "; a number is expected");
    return decimal;
  }

  Result<Expr> number(const Json& schema, const std::string& place, bool is_integer) {
    NumberBounds bounds{.is_integer = is_integer};
    SMELT_TRY(minimum, decimal(schema, "minimum", place));
    SMELT_TRY(maximum, decimal(schema, "maximum", place));
    SMELT_TRY(above, decimal(schema, "exclusiveMinimum", place));
    SMELT_TRY(below, decimal(schema, "exclusiveMaximum", place));
    SMELT_TRY(multiple, decimal(schema, "multipleOf", place));
    if ((minimum && above) || (maximum && below))
      return error(place, "an exclusive bound beside an inclusive one is not supported; write the narrower one");
    bounds.least = minimum ? minimum : above;
    bounds.most = maximum ? maximum : below;
    bounds.above_least = above.has_value();
    bounds.below_most = below.has_value();
    bounds.multiple_of = multiple;
    if (!bounds.least && !bounds.most && !multiple) return text_.number(is_integer);
    const auto language = number_language(bounds);
    if (!language) return error(place, language.error().message);
    return to_grammar(grammar_, *language, plain_form);
  }

  // What stands more than once is a rule.
  Expr shared(Expr e) {
    const Grammar::Kind kind = grammar_.node(e).kind;
    if (kind == Grammar::Kind::Rule || kind == Grammar::Kind::Bytes || e == Grammar::kEmpty || e == Grammar::kNothing)
      return e;
    const int rule = grammar_.add_rule("part");
    grammar_.define(rule, e);
    return grammar_.use(rule);
  }

  Result<Expr> array(const Json& schema, const std::string& place, int depth) {
    SMELT_TRY(least, count(schema, "minItems", 0, place));
    SMELT_TRY(most, count(schema, "maxItems", -1, place));
    const Json* rest = schema.contains("items") ? &schema["items"] : nullptr;
    std::vector<Expr> first;
    const char* list = schema.contains("prefixItems") ? "prefixItems" : "items";
    if (schema.contains(list) && schema[list].is_array()) {
      for (size_t i = 0; i < schema[list].size(); ++i) {
        SMELT_TRY(item, this->schema(schema[list][i], place + "/" + list + "/" + std::to_string(i), depth + 1));
        first.push_back(item);
      }
      if (std::string_view(list) == "items") rest = nullptr;
    }
    Expr item = text_.value();
    if (rest) {
      SMELT_TRY(read, this->schema(*rest, place + "/items", depth + 1));
      item = shared(read);
    }
    if (!rest && !first.empty() && most < 0) most = std::max(least, static_cast<int>(first.size()));
    return list_of(text_, first, item, least, most);
  }

  // --- objects

  Result<Expr> object(const Json& schema, const std::string& place, int depth) {
    SMELT_TRY(properties, properties_of(schema, place, depth));
    SMELT_TRY(others, others_of(schema, place, depth));
    SMELT_TRY(least, count(schema, "minProperties", 0, place));
    SMELT_TRY(most, count(schema, "maxProperties", -1, place));
    const auto required =
        std::count_if(properties.begin(), properties.end(), [](const auto& p) { return p.is_required; });
    // Other keys may repeat each other, so they count as one.
    if (others != Grammar::kNothing && least > required + 1)
      return error(place, "'minProperties' beside properties of free names is supported up to those required and one");
    return object_of(text_, properties, others, least, most);
  }

  Result<std::vector<JsonProperty>> properties_of(const Json& schema, const std::string& place, int depth) {
    std::vector<JsonProperty> properties;
    std::set<std::string> required;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) return error(place, "'required' is a list of names");
      for (const Json& name : schema["required"]) {
        if (!name.is_string()) return error(place, "'required' is a list of names");
        required.insert(name.get<std::string>());
      }
    }
    const Json none = Json::object();
    const Json& named = schema.contains("properties") ? schema["properties"] : none;
    if (!named.is_object()) return error(place, "'properties' is an object");
    for (const auto& [name, of] : named.items()) {
      SMELT_TRY(value, this->schema(of, place + "/properties/" + name, depth + 1));
      properties.push_back({shared(text_.entry(text_.name(name), value)), required.contains(name)});
      required.erase(name);
    }
    for (const std::string& name : required) {  // asked for, but not described
      const Json any = schema.value("additionalProperties", Json(true));
      SMELT_TRY(value, this->schema(any, place + "/additionalProperties", depth + 1));
      properties.push_back({shared(text_.entry(text_.name(name), value)), true});
    }
    return properties;
  }

  // An entry of a name that is not among the properties; kNothing if there may be none.
  Result<Expr> others_of(const Json& schema, const std::string& place, int depth) {
    if (schema.contains("patternProperties")) return pattern_property(schema, place, depth);
    const bool is_open = !schema.contains("properties") && !schema.contains("required");
    const Json others = schema.value("additionalProperties", Json(is_open));
    if (others == false) return Grammar::kNothing;
    SMELT_TRY(value, this->schema(others, place + "/additionalProperties", depth + 1));
    std::vector<std::string> names;
    if (schema.contains("properties"))
      for (const auto& [name, of] : schema["properties"].items()) names.push_back(name);
    if (schema.contains("required"))
      for (const Json& name : schema["required"]) names.push_back(name);
    const Expr key = names.empty() ? text_.string() : text_.text(all_but(names));
    return text_.entry(key, shared(value));
  }

  Result<Expr> pattern_property(const Json& schema, const std::string& place, int depth) {
    const Json& patterns = schema["patternProperties"];
    const bool is_alone = patterns.is_object() && patterns.size() == 1 && !schema.contains("properties") &&
                          (!schema.contains("additionalProperties") || schema["additionalProperties"] == false);
    if (!is_alone)
      return error(place, "'patternProperties' is supported with one pattern, without 'properties' and with no others");
    const std::string& pattern = patterns.begin().key();
    const auto language = read_regex(pattern, true);
    if (!language) return error(place, language.error().message);
    SMELT_TRY(value, this->schema(patterns.begin().value(), place + "/patternProperties", depth + 1));
    return text_.entry(text_.text(*language), shared(value));
  }

  Grammar& grammar_;
  JsonText& text_;
  const Json& root_;
  std::map<std::string, int> references_;
};

// Of lists and objects inside of each other.
bool is_deeper(const Json& value, int depth) {
  if (!value.is_structured()) return false;
  return depth == 0 || std::any_of(value.begin(), value.end(), [&](const Json& v) { return is_deeper(v, depth - 1); });
}

Error too_deep() { return {"[schema] the schema has more than " + std::to_string(kDeepestGrammar) + " levels"}; }

}  // namespace

Result<Expr> add_schema(JsonText& text, const Json& schema, const Json& root) {
  if (is_deeper(root, kDeepestGrammar)) return too_deep();
  return Reader(text, root).schema(schema, "", 0);
}

Result<Grammar> read_json_schema(std::string_view text) {
  if (text.size() > kLongestGrammar)
    return Error{"[schema] the schema has " + std::to_string(text.size()) + " bytes; at most " +
                 std::to_string(kLongestGrammar) + " are read"};
  bool is_too_deep = false;
  const auto depth = [&](int level, Json::parse_event_t, Json&) { return !(is_too_deep |= level > kDeepestGrammar); };
  const Json schema = Json::parse(text, depth, false);
  if (is_too_deep) return too_deep();
  if (schema.is_discarded()) return Error{"[schema] the schema is not JSON"};
  Grammar grammar;
  JsonText as_json(grammar);
  SMELT_TRY(root, add_schema(as_json, schema, schema));
  grammar.set_root(root);
  return grammar;
}

Grammar any_json_object() {
  Grammar grammar;
  grammar.set_root(JsonText(grammar).object());
  return grammar;
}

}  // namespace smelt
