#include "server/chat_completion.h"

#include "server/chat_output.h"
#include "server/chat_request.h"
#include "server/chunk_text.h"
#include "server/logprobs_json.h"

namespace smelt {
namespace {

// One of the answers to a chat.
struct Choice {
  ChatOutput output;
  GenerationEnd end = {};
  // Given out; of text that can be; of text that a stop string may cut away.
  Json logprobs = Json::array(), ready = Json::array(), held = Json::array();
  std::optional<ChunkText> thought = {}, content = {};  // chunks of them

  void release() {
    for (Json& one : held) ready.push_back(std::move(one));
    held = Json::array();
  }
};

class ChatAnswer : public Answer {
 public:
  ChatAnswer(const ServedModel& model, const Settings& settings, const OutputOptions& output, size_t count,
             const Stamp& stamp)
      : stamp_(stamp),
        model_(model),
        with_usage_(settings.stream_usage),
        with_logprobs_(settings.generation.top_logprobs >= 0) {
    for (size_t i = 0; i < count; ++i) choices_.push_back({ChatOutput(model, settings.stops, output)});
  }

  StreamEvents begin() override {
    StreamEvents events;
    for (size_t i = 0; i < choices_.size(); ++i)
      events.push_back({.data = chunk(i, {{"role", "assistant"}, {"content", ""}})});
    return events;
  }

  StreamEvents take(size_t number, const GenerationEvent& news) override {
    Choice& choice = choices_[number];
    for (const Logprobs& one : news.logprobs) choice.held.push_back(json_of(one, model_.tokenizer()));
    const Output part = choice.output.push(news.tokens);
    if (!choice.output.holds_back()) choice.release();
    return events_of(number, part);
  }

  StreamEvents finish(size_t number, const GenerationEnd& end) override {
    Choice& choice = choices_[number];
    choice.end = end;
    if (choice.output.stop().empty()) choice.release();
    StreamEvents events = events_of(number, choice.output.finish(end.reason));
    Json last = chunk(number, Json::object(), finish_reason(choice));
    last["timings"] = timings_of(end);
    events.push_back({.data = std::move(last)});
    return events;
  }

  StreamEvents finish_all() override {
    if (!with_usage_) return {};
    Json usage = object("chat.completion.chunk");
    usage["choices"] = Json::array();
    usage["usage"] = json_of(usage_of_all());
    return {{.data = std::move(usage)}};
  }

  Json whole() const override {
    Json all = object("chat.completion");
    all["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json one = {{"index", i}, {"message", message_of(i)}, {"finish_reason", finish_reason(choices_[i])}};
      if (with_logprobs_) one["logprobs"] = {{"content", choices_[i].logprobs}};
      all["choices"].push_back(std::move(one));
    }
    all["usage"] = json_of(usage_of_all());
    if (choices_.size() == 1) all["timings"] = timings_of(choices_[0].end);
    return all;
  }

  bool is_complete(size_t number) const override { return !choices_[number].output.stop().empty(); }

 private:
  Json object(const char* kind) const {
    return {{"id", "chatcmpl-" + stamp_.id}, {"object", kind}, {"created", stamp_.created}, {"model", model_.name()}};
  }

  // With the logprobs of what has become clear since the chunk before.
  Json chunk(size_t number, Json delta, Json finish_reason = nullptr) {
    Json choice = {{"index", number}, {"delta", std::move(delta)}, {"finish_reason", finish_reason}};
    if (Json& ready = choices_[number].ready; with_logprobs_ && !ready.empty()) {
      for (const Json& one : ready) choices_[number].logprobs.push_back(one);
      choice["logprobs"] = {{"content", std::exchange(ready, Json::array())}};
    }
    Json json = object("chat.completion.chunk");
    json["choices"] = Json::array({std::move(choice)});
    return json;
  }

  // Without its arguments.
  Json call_json(size_t number, size_t call_number) const {
    const ToolCall& call = choices_[number].output.whole().calls[call_number];
    const std::string made_up = "call_" + stamp_.id + std::to_string(number) + "_" + std::to_string(call_number);
    return {{"id", call.id.empty() ? made_up : call.id},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", ""}}}};
  }

  Json message_of(size_t number) const {
    const Output& whole = choices_[number].output.whole();
    Json message = {{"role", "assistant"}, {"content", whole.content}};
    if (whole.content.empty() && !whole.calls.empty()) message["content"] = nullptr;
    if (!whole.reasoning.empty()) message["reasoning_content"] = whole.reasoning;
    for (size_t i = 0; i < whole.calls.size(); ++i) {
      message["tool_calls"].push_back(call_json(number, i));
      message["tool_calls"].back()["function"]["arguments"] = whole.calls[i].arguments;
    }
    return message;
  }

  // More of a call that has begun comes before all else.
  StreamEvents events_of(size_t number, const Output& news) {
    StreamEvents events;
    const auto add = [&](Json delta) { events.push_back({.data = chunk(number, std::move(delta))}); };
    const auto add_text = [&](std::optional<ChunkText>& known, const char* name, const std::string& text) {
      if (with_logprobs_) return add({{name, text}});
      if (!known) known.emplace(chunk(number, {{name, ChunkText::kMark}}));
      events.push_back({.text = known->with(text)});
    };
    size_t call = choices_[number].output.calls() - news.calls.size();
    const auto grow = [&](const ToolCall& part) {
      const Json rest = {{"index", call}, {"function", {{"arguments", part.arguments}}}};
      if (!part.arguments.empty()) add({{"tool_calls", Json::array({rest})}});
      ++call;
    };
    auto part = news.calls.begin();
    if (news.continues_call) grow(*part++);
    Choice& choice = choices_[number];
    if (!news.reasoning.empty()) add_text(choice.thought, "reasoning_content", news.reasoning);
    if (!news.content.empty()) add_text(choice.content, "content", news.content);
    for (; part != news.calls.end(); ++part) {
      Json begin = {{"index", call}};
      begin.update(call_json(number, call));
      add({{"tool_calls", Json::array({begin})}});
      grow(*part);
    }
    return events;
  }

  static const char* finish_reason(const Choice& choice) {
    if (choice.output.calls() > 0 && !choice.output.is_cut_in_call()) return "tool_calls";
    return choice.end.reason == Finish::Length ? "length" : "stop";
  }

  Usage usage_of_all() const {
    Usage usage{choices_[0].end.prompt_tokens, choices_[0].end.cached_tokens};
    for (const Choice& choice : choices_) usage.tokens += choice.end.tokens;
    return usage;
  }

  Stamp stamp_;
  const ServedModel& model_;
  bool with_usage_, with_logprobs_;
  std::vector<Choice> choices_;
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

ToolChoice read_tool_choice(Fields& fields) {
  using Kind = ToolChoice::Kind;
  ToolChoice choice;
  choice.may_be_many = fields.flag("parallel_tool_calls", true);
  const Json* given = fields.find("tool_choice");
  if (!given || *given == "auto") return choice;
  if (*given == "none") choice.kind = Kind::None;
  if (*given == "required") choice.kind = Kind::Required;
  if (given->is_object() && given->value("type", Json()) == "function" &&
      given->value("function", Json()).is_object()) {
    choice.kind = Kind::Named;
    choice.name = (*given)["function"].value("name", "");
  }
  if (choice.kind == Kind::Auto)
    fields.fail("tool_choice",
                "expected none, auto, required or {\"type\": \"function\", \"function\": {\"name\": ...}}");
  return choice;
}

// logprobs: true, and how many others.
int32_t read_top_logprobs(Fields& fields) {
  const bool wanted = fields.flag("logprobs", false);
  const auto top = static_cast<int32_t>(fields.whole("top_logprobs", 0, kMostLogprobs, 0));
  if (top > 0 && !wanted) fields.fail("top_logprobs", "needs logprobs: true");
  return wanted ? top : -1;
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
  if (const Json* tools = fields.find("tools"))
    if (auto problem = read_tools(*tools, chat)) return problem;
  read_template_variables(fields, chat);
  chat.add_generation_prompt = fields.flag("add_generation_prompt", true);
  return fields.problem();
}

std::optional<ApiError> read_chat_completion(const Json& body, const ServedModel& model, const Stamp& stamp,
                                             ApiRequest& understood) {
  ChatRequest request;
  if (auto problem = read_chat(body, request.chat)) return problem;
  Fields fields(body);
  request.tool_choice = read_tool_choice(fields);
  request.settings = read_settings(fields, model, model.usual_length(-1));
  request.settings.generation.top_logprobs = read_top_logprobs(fields);
  const int64_t count = read_answer_count(fields);
  if (fields.problem()) return fields.problem();
  PreparedChat prepared;
  const Settings settings = request.settings;
  if (auto problem = prepare_chat(std::move(request), model, prepared)) return problem;
  understood.generations = repeated(prepared.generation, count);
  understood.stream = settings.stream;
  understood.answer = std::make_unique<ChatAnswer>(model, settings, prepared.output, static_cast<size_t>(count), stamp);
  return std::nullopt;
}

}  // namespace smelt
