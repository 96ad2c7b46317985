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
    StreamEvents events = events_of(output_.finish());
    close_item(events);
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

  void add_call(StreamEvents& events, const ToolCall& call) {
    close_item(events);
    const std::string id = new_item_id("fc_"), arguments = dump(call.arguments);
    const std::string call_id = call.id.empty() ? "call_" + stamp_.id + std::to_string(items_.size()) : call.id;
    Json item = {{"id", id},           {"type", "function_call"}, {"status", "in_progress"},
                 {"call_id", call_id}, {"name", call.name},       {"arguments", ""}};
    const size_t index = items_.size();
    add(events, "response.output_item.added", {{"output_index", index}, {"item", item}});
    add(events, "response.function_call_arguments.delta",
        {{"item_id", id}, {"output_index", index}, {"delta", arguments}});
    add(events, "response.function_call_arguments.done",
        {{"item_id", id}, {"output_index", index}, {"name", call.name}, {"arguments", arguments}});
    item["arguments"] = arguments;
    item["status"] = "completed";
    end_item(events, std::move(item));
  }

  void end_item(StreamEvents& events, Json item) {
    add(events, "response.output_item.done", {{"output_index", items_.size()}, {"item", item}});
    items_.push_back(std::move(item));
  }

  std::string new_item_id(const char* prefix) const { return prefix + stamp_.id + std::to_string(items_.size()); }

  StreamEvents events_of(const Output& news) {
    StreamEvents events;
    grow_text(events, kReasoning, news.reasoning);
    grow_text(events, kMessage, news.content);
    for (const ToolCall& call : news.calls) add_call(events, call);
    return events;
  }

  Stamp stamp_;
  std::string model_;
  Json echo_;
  ChatOutput output_;
  std::optional<GenerationEnd> end_;
  Json items_ = Json::array();  // that have ended
  const TextKind* open_ = nullptr;
  std::string item_id_, text_;  // of the open one
  int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Answer> make_responses_answer(const ServedModel& model, const Settings& settings,
                                              const PreparedChat& prepared, Json echo, const Stamp& stamp) {
  return std::make_unique<ResponsesAnswer>(model, settings, prepared, std::move(echo), stamp);
}

}  // namespace smelt
