#include "server/chat_request.h"

#include "chat/tool_grammar.h"

namespace smelt {
namespace {

constexpr size_t kMostTools = 256;

// Calls cannot come out malformed, and come where they are asked for; where none comes, the content is held to
// `schema`, if there is one. Without a known format of calls the text is as it is without tools.
std::optional<ApiError> hold_to_tools(const ToolChoice& choice, const Json& tools, const std::optional<Json>& schema,
                                      bool in_thoughts, const ServedModel& model, GenerationRequest& generation) {
  using Kind = ToolChoice::Kind;
  const auto wrong = [&](const char* field, const std::string& what) {
    return ApiError{.message = field + (": " + what), .param = field};
  };
  const ToolRules rules{.must_call = choice.kind == Kind::Required || choice.kind == Kind::Named,
                        .only = choice.name,
                        .parallel = choice.may_be_many,
                        .starts_in_thoughts = in_thoughts,
                        .content = schema};
  if (tools.empty() && rules.must_call) return wrong(choice.field, "there are no tools to call");
  if (tools.empty()) return std::nullopt;
  if (generation.grammar && !schema) return wrong("tools", "not together with grammar; leave one of them out");
  if (model.format().calls == CallStyle::none)
    return rules.must_call ? std::optional(wrong(choice.field, "the template of this model has no calls of tools"))
                           : std::nullopt;
  const Json source = {{"tools", tools},
                       {"must_call", rules.must_call},
                       {"only", rules.only},
                       {"parallel", rules.parallel},
                       {"in_thoughts", in_thoughts},
                       {"content", schema ? Json::array({*schema}) : Json()}};
  const auto make = [&](const TokenTable& tokens) { return tool_grammar(model.format(), tools, rules, tokens); };
  auto masks = model.masks("tools " + dump(source), make);
  if (!masks) return wrong(rules.only.empty() ? "tools" : choice.field, plain_message(masks.error()));
  generation.grammar = masks.take();
  generation.grammar_after.clear();  // it has the thoughts in it
  return std::nullopt;
}

std::optional<ApiError> render(const Chat& chat, const ServedModel& model, std::optional<jinja::Text>& prompt) {
  auto rendered = model.render(chat);
  if (!rendered) return ApiError{.message = plain_message(rendered.error()), .param = "messages"};
  prompt = rendered.take();
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> read_tools(const Json& tools, Chat& chat) {
  const auto wrong = [](const std::string& what) { return ApiError{.message = "tools: " + what, .param = "tools"}; };
  if (!tools.is_array()) return wrong("expected a list");
  if (tools.size() > kMostTools) return wrong("there are more than " + std::to_string(kMostTools));
  for (const Json& tool : tools)
    if (!tool.is_object() || tool.value("type", Json()) != "function" || !tool.value("function", Json()).is_object() ||
        !tool["function"].value("name", Json()).is_string())
      return wrong("each one is {\"type\": \"function\", \"function\": {\"name\": ...}}");
  chat.tools = tools;
  return std::nullopt;
}

void read_template_variables(Fields& fields, Chat& chat) {
  if (const Json* variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object()) return fields.fail("chat_template_kwargs", "expected an object");
    chat.variables = *variables;
  }
  if (const std::string effort = fields.text("reasoning_effort", ""); !effort.empty())
    chat.variables["reasoning_effort"] = effort;
}

std::optional<ApiError> prepare_chat(ChatRequest request, const ServedModel& model, PreparedChat& prepared) {
  if (request.tool_choice.kind == ToolChoice::Kind::None) request.chat.tools = Json::array();
  std::optional<jinja::Text> prompt;
  if (auto problem = render(request.chat, model, prompt)) return problem;
  if (auto problem = check_text(prompt->bytes(), model)) return problem;
  const bool in_thoughts = ends_in_thoughts(model.format(), prompt->bytes());
  GenerationRequest& generation = prepared.generation;
  generation = std::move(request.settings.generation);
  generation.prompt = model.chat_template().encode(*prompt);
  generation.stops = model.stops();
  if (auto problem = check_prompt(generation.prompt, model)) return problem;
  if (in_thoughts && generation.grammar) generation.grammar_after = model.format().think_end;
  prepared.output = {in_thoughts, request.chat.tools};
  return hold_to_tools(request.tool_choice, request.chat.tools, request.settings.schema, in_thoughts, model,
                       generation);
}

std::optional<ApiError> encode_chat(const Chat& chat, const ServedModel& model, std::vector<int32_t>& ids) {
  std::optional<jinja::Text> prompt;
  if (auto problem = render(chat, model, prompt)) return problem;
  ids = model.chat_template().encode(*prompt);
  return std::nullopt;
}

}  // namespace smelt
