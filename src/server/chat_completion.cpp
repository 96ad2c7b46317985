#include "server/chat_completion.h"

#include "chat/output_parser.h"
#include "server/settings.h"
#include "server/stop_text.h"

namespace smelt {
namespace {

class ChatAnswer : public Answer {
 public:
  ChatAnswer(const ServedModel& model, const Settings& settings, OutputOptions output, const Stamp& stamp)
      : stamp_(stamp),
        model_(model.name()),
        with_usage_(settings.stream_usage),
        decoder_(model.tokenizer()),
        stop_(settings.stops),
        parser_(OutputParser::make(model.format(), std::move(output))) {}

  std::vector<Json> begin() override { return {chunk({{"role", "assistant"}, {"content", ""}})}; }

  std::vector<Json> take(std::span<const int32_t> tokens) override {
    Output news;
    for (int32_t token : tokens) news.append(parser_->push(stop_.push(decoder_.push(token))));
    return chunks_of(std::move(news));
  }

  std::vector<Json> finish(const GenerationEnd& end) override {
    end_ = end;
    Output rest = parser_->push(stop_.push(decoder_.flush()));
    rest.append(parser_->push(stop_.finish()));
    rest.append(parser_->finish());
    std::vector<Json> chunks = chunks_of(std::move(rest));
    Json last = chunk(Json::object(), finish_reason());
    last["timings"] = timings_of(end_);
    chunks.push_back(std::move(last));
    if (!with_usage_) return chunks;
    Json usage = object("chat.completion.chunk");
    usage["choices"] = Json::array();
    usage["usage"] = usage_of(end_);
    chunks.push_back(std::move(usage));
    return chunks;
  }

  Json whole() const override {
    Json message = {{"role", "assistant"}, {"content", whole_.content}};
    if (whole_.content.empty() && !whole_.calls.empty()) message["content"] = nullptr;
    if (!whole_.reasoning.empty()) message["reasoning_content"] = whole_.reasoning;
    for (size_t i = 0; i < whole_.calls.size(); ++i) message["tool_calls"].push_back(call_json(i));
    Json all = object("chat.completion");
    all["choices"] = Json::array({{{"index", 0}, {"message", message}, {"finish_reason", finish_reason()}}});
    all["usage"] = usage_of(end_);
    all["timings"] = timings_of(end_);
    return all;
  }

  bool is_complete() const override { return !stop_.found().empty(); }

 private:
  Json object(const char* kind) const {
    return {{"id", "chatcmpl-" + stamp_.id}, {"object", kind}, {"created", stamp_.created}, {"model", model_}};
  }

  Json chunk(Json delta, Json finish_reason = nullptr) const {
    Json json = object("chat.completion.chunk");
    json["choices"] = Json::array({{{"index", 0}, {"delta", std::move(delta)}, {"finish_reason", finish_reason}}});
    return json;
  }

  Json call_json(size_t number) const {
    const ToolCall& call = whole_.calls[number];
    return {{"id", call.id.empty() ? "call_" + stamp_.id + std::to_string(number) : call.id},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", dump(call.arguments)}}}};
  }

  std::vector<Json> chunks_of(Output news) {
    const size_t calls = whole_.calls.size();
    whole_.append(news);
    std::vector<Json> chunks;
    if (!news.reasoning.empty()) chunks.push_back(chunk({{"reasoning_content", news.reasoning}}));
    if (!news.content.empty()) chunks.push_back(chunk({{"content", news.content}}));
    for (size_t i = calls; i < whole_.calls.size(); ++i) {
      Json call = {{"index", i}};
      call.update(call_json(i));
      chunks.push_back(chunk({{"tool_calls", Json::array({call})}}));
    }
    return chunks;
  }

  const char* finish_reason() const {
    if (!whole_.calls.empty()) return "tool_calls";
    return end_.reason == Finish::Length ? "length" : "stop";
  }

  Stamp stamp_;
  std::string model_;
  bool with_usage_;
  StreamDecoder decoder_;
  StopText stop_;
  std::unique_ptr<OutputParser> parser_;
  Output whole_;
  GenerationEnd end_;
};

std::optional<ApiError> problem_of_message(const Json& message) {
  const auto wrong = [](const char* what) { return ApiError{.message = what, .param = "messages"}; };
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
    return wrong("messages: each one is an object with a role");
  const auto content = message.find("content");
  if (content == message.end() || content->is_null() || content->is_string()) return std::nullopt;
  if (!content->is_array()) return wrong("messages: content is a string or a list of parts");
  for (const Json& part : *content)
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.value("text", Json()).is_string())
      return wrong("messages: parts of a content are {\"type\": \"text\", \"text\": ...}; this server reads text only");
  return std::nullopt;
}

std::optional<ApiError> problem_of_tools(const Json& body, const Json& tools) {
  const auto wrong = [](const char* param, const char* what) { return ApiError{.message = what, .param = param}; };
  if (!tools.is_array()) return wrong("tools", "tools: expected a list");
  for (const Json& tool : tools)
    if (!tool.is_object() || tool.value("type", Json()) != "function" || !tool.value("function", Json()).is_object() ||
        !tool["function"].value("name", Json()).is_string())
      return wrong("tools", "tools: each one is {\"type\": \"function\", \"function\": {\"name\": ...}}");
  const Json choice = body.value("tool_choice", Json());
  if (!choice.is_null() && choice != "auto" && choice != "none")
    return wrong("tool_choice", "tool_choice: not supported but for \"auto\" and \"none\"");
  if (body.value("parallel_tool_calls", Json()) == false && !tools.empty())
    return wrong("parallel_tool_calls", "parallel_tool_calls: false is not supported; leave it out");
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> read_chat(const Json& body, Chat& chat) {
  Fields fields(body);
  const Json* messages = fields.find("messages");
  if (!messages || !messages->is_array() || messages->empty())
    return ApiError{.message = "messages: expected a list with at least one message", .param = "messages"};
  for (const Json& message : *messages)
    if (auto problem = problem_of_message(message)) return problem;
  chat.messages = *messages;
  if (const Json* tools = fields.find("tools")) {
    if (auto problem = problem_of_tools(body, *tools)) return problem;
    if (body.value("tool_choice", Json()) != "none") chat.tools = *tools;
  }
  if (const Json* variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object()) fields.fail("chat_template_kwargs", "expected an object");
    chat.variables = *variables;
  }
  if (const std::string effort = fields.text("reasoning_effort", ""); !effort.empty() && !fields.problem())
    chat.variables["reasoning_effort"] = effort;
  chat.add_generation_prompt = fields.flag("add_generation_prompt", true);
  return fields.problem();
}

std::optional<ApiError> read_chat_completion(const Json& body, const ServedModel& model, const Stamp& stamp,
                                             ApiRequest& request) {
  Chat chat;
  if (auto problem = read_chat(body, chat)) return problem;
  Fields fields(body);
  const Settings settings = read_settings(fields, model, -1);
  if (fields.problem()) return fields.problem();
  const auto prompt = model.chat_template().render(chat);
  if (!prompt) return ApiError{.message = plain_message(prompt.error()), .param = "messages"};
  const bool in_thoughts = ends_in_thoughts(model.format(), prompt->bytes());

  request.generation = {.prompt = model.chat_template().encode(*prompt),
                        .sampler = settings.sampler,
                        .max_tokens = settings.max_tokens,
                        .stops = model.stops(),
                        .grammar = settings.grammar,
                        .grammar_after = in_thoughts ? model.format().think_end : ""};
  request.stream = settings.stream;
  request.answer =
      std::make_unique<ChatAnswer>(model, settings, OutputOptions{in_thoughts, std::move(chat.tools)}, stamp);
  return check_prompt(request.generation.prompt, model);
}

}  // namespace smelt
