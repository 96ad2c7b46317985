#include "chat/tool_arguments.h"

#include <algorithm>
#include <cctype>

#include "chat/call_values.h"
#include "grammar/json_schema.h"
#include "grammar/schema_merge.h"

namespace smelt {
namespace {

using Expr = Grammar::Expr;
using Json = nlohmann::ordered_json;

Error unusable(const Tool& tool, const std::string& problem) {
  return {"[tools] the parameters of '" + tool.name + "' cannot be held to: " + problem};
}

Error without_prefix(Error error) {
  const size_t end = error.message.find("] ");
  if (error.message.starts_with('[') && end != std::string::npos) error.message.erase(0, end + 2);
  return error;
}

// What there is of a schema beside the list of properties.
std::string unknown_keyword(const Json& parameters) {
  for (const auto& [key, value] : parameters.items()) {
    const bool is_known = key == "type" || key == "properties" || key == "required" || key == "additionalProperties";
    if (!is_known && !only_describes(key)) return key;
  }
  return {};
}

// The arguments of one tool between tags.
class TaggedArguments {
 public:
  TaggedArguments(JsonText& plain, JsonText& json, const Tool& tool, const ArgumentTags& tags)
      : grammar_(json.grammar()), plain_(plain), json_(json), tool_(tool), tags_(tags) {}

  Result<Expr> all() {
    if (tool_.parameters.is_null()) return Grammar::kEmpty;
    const std::string unknown = unknown_keyword(tool_.parameters);
    if (unknown.empty()) return described();
    if (tool_.is_strict)
      return unusable(tool_, "'" + unknown + "' beside 'properties' is not supported in this format");
    return others({}, true);
  }

 private:
  Result<Expr> described() {
    const Json none = Json::object(), no_names = Json::array();
    const Json& properties = tool_.parameters.contains("properties") ? tool_.parameters["properties"] : none;
    const Json& required = tool_.parameters.contains("required") ? tool_.parameters["required"] : no_names;
    if (!properties.is_object() || !required.is_array()) return unusable(tool_, "'properties' is an object");
    std::vector<Expr> parts;
    std::vector<std::string> names;
    for (const auto& [name, schema] : properties.items()) {
      SMELT_TRY(value, value_of(schema));
      const bool is_required = std::find(required.begin(), required.end(), Json(name)) != required.end();
      const Expr part = entry(grammar_.literal(name), value, is_text(schema));
      parts.push_back(is_required ? part : grammar_.optional(part));
      names.push_back(name);
    }
    const bool is_open = properties.empty() && required.empty();
    const Json more =
        tool_.parameters.value("additionalProperties", Json(is_open && !tool_.parameters.contains("properties")));
    SMELT_TRY(rest, others(names, more));
    parts.push_back(rest);
    return grammar_.sequence(std::move(parts));
  }

  static bool is_text(const Json& schema) { return schema.is_object() && schema.value("type", Json()) == "string"; }

  Result<Expr> value_of(const Json& schema) {
    const bool is_plain = is_text(schema);
    JsonText& text = is_plain ? plain_ : json_;
    auto value = add_schema(text, schema, tool_.parameters);
    if (value) return value;
    if (tool_.is_strict) return unusable(tool_, without_prefix(value.error()).message);
    return is_plain ? plain_.string() : json_.value();
  }

  // Arguments of other names; `schema` false: there are none.
  Result<Expr> others(const std::vector<std::string>& names, const Json& schema) {
    if (schema == false) return Grammar::kEmpty;
    const auto name = both(*read_regex("[A-Za-z_][A-Za-z0-9_.-]{0,63}", false), all_but(names));
    if (!name) return name.error();
    const auto value = add_schema(json_, schema, tool_.parameters);
    const Expr any = value ? *value : json_.value();
    return grammar_.repeat(entry(to_grammar(grammar_, *name, plain_form), any, false), 0);
  }

  Expr entry(Expr name, Expr value, bool is_text) {
    const Expr before = is_text ? tags_.before_text.value_or(tags_.before_value) : tags_.before_value;
    return grammar_.sequence({tags_.before_name, name, before, value, tags_.behind_value});
  }

  Grammar& grammar_;
  JsonText &plain_, &json_;
  const Tool& tool_;
  const ArgumentTags& tags_;
};

}  // namespace

Result<std::vector<Tool>> read_tools(const Json& tools) {
  std::vector<Tool> all;
  for (const Json& entry : tools) {
    const Json& function = entry.is_object() && entry.contains("function") ? entry["function"] : entry;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
      return Error{"[tools] each tool is {\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": ...}}"};
    Tool tool{.name = function["name"], .parameters = function.value("parameters", Json())};
    if (!is_tool_name(tool.name))
      return Error{"[tools] the name '" + tool.name + "' cannot be called: names have no spaces, quotes and brackets"};
    tool.is_strict = function.value("strict", Json()) == true;
    const bool is_object = tool.parameters.is_object() && tool.parameters.value("type", Json("object")) == "object";
    if (!tool.parameters.is_null() && !is_object) return unusable(tool, "they are the schema of an object");
    all.push_back(std::move(tool));
  }
  return all;
}

Json in_order_of_names(const Json& schema) {
  if (!schema.is_structured()) return schema;
  Json out = schema;
  for (auto& [key, part] : out.items()) part = in_order_of_names(part);
  if (!out.is_object() || !out.contains("properties") || !out["properties"].is_object()) return out;
  std::vector<std::pair<std::string, std::string>> names;  // in lower case, as it is
  for (const auto& [name, part] : out["properties"].items()) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    names.emplace_back(std::move(lower), name);
  }
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json properties = Json::object();
  for (const auto& [lower, name] : names) properties[name] = out["properties"][name];
  out["properties"] = std::move(properties);
  return out;
}

Result<Expr> object_of_arguments(JsonText& text, const Tool& tool) {
  if (tool.parameters.is_null()) return text.list('{', Grammar::kEmpty, '}');
  Json schema = tool.parameters;
  schema["type"] = "object";
  auto arguments = add_schema(text, schema, schema);
  if (arguments) return arguments;
  if (tool.is_strict) return unusable(tool, without_prefix(arguments.error()).message);
  return text.object();
}

Result<Expr> tagged_arguments(JsonText& plain, JsonText& json, const Tool& tool, const ArgumentTags& tags) {
  return TaggedArguments(plain, json, tool, tags).all();
}

}  // namespace smelt
