#include "server/responses_answer.h"

namespace smelt {
namespace {

// An item that holds one text: a message or thoughts.
struct TextKind {
  const char* id_prefix;
  const char* part_type;
  const char* delta_event;
  const char* done_event;
};
constexpr TextKind kMessage{"msg_", "output_text", "response.output_text.delta", "response.output_text.done"};
constexpr TextKind kReasoning{"rs_", "reasoning_text", "response.reasoning_text.delta", "response.reasoning_text.done"};

class ResponsesAnswer : public Answer {
 public:
  ResponsesAnswer(const ServedModel& model, const Settings& settings, const PreparedChat& prepared, Json echo,
                  const Stamp& stamp)
      : stamp_(stamp), model_(model.name()), echo_(std::move(echo)), output_(model, settings.stops, prepared.output) {}

  StreamEvents begin() override {
    StreamEvents events;
    add(events, "response.created", {{"response", response("in_progress")}});
    add(events, "response.in_progress", {{"response", response("in_progress")}});
    return events;
  }

  StreamEvents take(size_t, const GenerationEvent& news) override { return events_of(output_.push(news.tokens)); }

  StreamEvents finish(size_t, const GenerationEnd& end) override {
    StreamEvents events = events_of(output_.finish(end.reason));
    close_item(events);
    close_call(events, "incomplete");
    end_ = end;
    add(events, is_cut() ? "response.incomplete" : "response.completed", {{"response", whole()}});
    return events;
  }

  Json whole() const override { return response(is_cut() ? "incomplete" : "completed"); }
  bool is_complete(size_t) const override { return !output_.stop().empty(); }

 private:
  bool is_cut() const { return end_ && end_->reason == Finish::Length; }

  Json response(const char* status) const {
    Json json = {{"id", "resp_" + stamp_.id},
                 {"object", "response"},
                 {"created_at", stamp_.created},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details", nullptr},
                 {"model", model_},
                 {"output", items_},
                 {"previous_response_id", nullptr},
                 {"store", false},
                 {"usage", nullptr}};
    if (is_cut()) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (end_) json["usage"] = usage();
    json.update(echo_);
    return json;
  }

  Json usage() const {
    return {{"input_tokens", end_->prompt_tokens},
            {"input_tokens_details", {{"cached_tokens", end_->cached_tokens}}},
            {"output_tokens", end_->tokens},
            {"output_tokens_details", {{"reasoning_tokens", output_.thought_tokens()}}},
            {"total_tokens", end_->prompt_tokens + end_->tokens}};
  }

  void add(StreamEvents& events, const char* name, Json data) {
    Json all = {{"type", name}, {"sequence_number", sequence_++}};
    all.update(data);
    events.push_back({name, std::move(all)});
  }

  // --- items begin, grow and end, one after another

  Json part_json() const {
    Json part = {{"type", open_->part_type}, {"text", text_}};
    if (open_ == &kMessage) part["annotations"] = part["logprobs"] = Json::array();
    return part;
  }

  Json text_item(const char* status, Json content) const {
    Json item = {{"id", item_id_}, {"type", open_ == &kMessage ? "message" : "reasoning"}, {"status", status}};
    if (open_ == &kMessage)
      item["role"] = "assistant";
    else
      item["summary"] = Json::array();
    item["content"] = std::move(content);
    return item;
  }

  // Of an event within the text of the open item.
  Json in_part(Json data) const {
    Json all = {{"item_id", item_id_}, {"output_index", items_.size()}, {"content_index", 0}};
    all.update(data);
    return all;
  }

  void grow_text(StreamEvents& events, const TextKind& kind, const std::string& text) {
    if (text.empty()) return;
    if (open_ != &kind) {
      close_item(events);
      close_call(events, "incomplete");
      open_ = &kind;
      item_id_ = new_item_id(kind.id_prefix);
      add(events, "response.output_item.added",
          {{"output_index", items_.size()}, {"item", text_item("in_progress", Json::array())}});
      add(events, "response.content_part.added", in_part({{"part", part_json()}}));
    }
    text_ += text;
    add(events, kind.delta_event, in_part(with_logprobs({{"delta", text}})));
  }

  void close_item(StreamEvents& events) {
    if (!open_) return;
    add(events, open_->done_event, in_part(with_logprobs({{"text", text_}})));
    add(events, "response.content_part.done", in_part({{"part", part_json()}}));
    end_item(events, text_item("completed", Json::array({part_json()})));
    open_ = nullptr;
    text_.clear();
  }

  // Clients expect the list in a message, empty though it is.
  Json with_logprobs(Json data) const {
    if (open_ == &kMessage) data["logprobs"] = Json::array();
    return data;
  }

  // --- calls

  Json call_item(const char* status) const {
    return {{"id", item_id_},      {"type", "function_call"}, {"status", status},
            {"call_id", call_id_}, {"name", call_name_},      {"arguments", text_}};
  }

  void begin_call(StreamEvents& events, const ToolCall& call) {
    close_item(events);
    close_call(events, "incomplete");
    in_call_ = true;
    item_id_ = new_item_id("fc_");
    call_id_ = call.id.empty() ? "call_" + stamp_.id + std::to_string(items_.size()) : call.id;
    call_name_ = call.name;
    add(events, "response.output_item.added", {{"output_index", items_.size()}, {"item", call_item("in_progress")}});
  }

  void grow_call(StreamEvents& events, const ToolCall& part) {
    text_ += part.arguments;
    if (!part.arguments.empty())
      add(events, "response.function_call_arguments.delta",
          {{"item_id", item_id_}, {"output_index", items_.size()}, {"delta", part.arguments}});
    if (part.is_whole) close_call(events, "completed");
  }

  void close_call(StreamEvents& events, const char* status) {
    if (!in_call_) return;
    add(events, "response.function_call_arguments.done",
        {{"item_id", item_id_}, {"output_index", items_.size()}, {"name", call_name_}, {"arguments", text_}});
    end_item(events, call_item(status));
    in_call_ = false;
    text_.clear();
  }

  void end_item(StreamEvents& events, Json item) {
    add(events, "response.output_item.done", {{"output_index", items_.size()}, {"item", item}});
    items_.push_back(std::move(item));
  }

  std::string new_item_id(const char* prefix) const { return prefix + stamp_.id + std::to_string(items_.size()); }

  StreamEvents events_of(const Output& news) {
    StreamEvents events;
    auto part = news.calls.begin();
    if (news.continues_call) grow_call(events, *part++);
    grow_text(events, kReasoning, news.reasoning);
    grow_text(events, kMessage, news.content);
    for (; part != news.calls.end(); ++part) {
      begin_call(events, *part);
      grow_call(events, *part);
    }
    return events;
  }

  Stamp stamp_;
  std::string model_;
  Json echo_;
  ChatOutput output_;
  std::optional<GenerationEnd> end_;
  Json items_ = Json::array();  // that have ended
  const TextKind* open_ = nullptr;
  bool in_call_ = false;             // that is the open one
  std::string item_id_, text_;       // of the open one; the text of a call are its arguments
  std::string call_id_, call_name_;  // of an open call
  int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Answer> make_responses_answer(const ServedModel& model, const Settings& settings,
                                              const PreparedChat& prepared, Json echo, const Stamp& stamp) {
  return std::make_unique<ResponsesAnswer>(model, settings, prepared, std::move(echo), stamp);
}

}  // namespace smelt
