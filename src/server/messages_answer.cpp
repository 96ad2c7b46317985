#include "server/messages_answer.h"

namespace smelt {
namespace {

class MessagesAnswer : public Answer {
 public:
  MessagesAnswer(const ServedModel& model, const Settings& settings, const PreparedChat& prepared, const Stamp& stamp)
      : stamp_(stamp),
        model_(model.name()),
        most_tokens_(prepared.generation.max_tokens),
        prompt_tokens_(static_cast<int64_t>(prepared.generation.prompt.size())),
        output_(model, settings.stops, prepared.output) {}

  StreamEvents begin() override {
    Json message = message_of(Json::array(), nullptr);
    message["usage"] = {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}};
    return {event("message_start", {{"message", std::move(message)}})};
  }

  StreamEvents take(size_t, const GenerationEvent& news) override { return events_of(output_.push(news.tokens)); }

  StreamEvents finish(size_t, const GenerationEnd& end) override {
    end_ = end;
    StreamEvents events = events_of(output_.finish(end.reason));
    close_block(events);
    const Json delta = {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}};
    events.push_back(event("message_delta", {{"delta", delta}, {"usage", usage()}}));
    events.push_back(event("message_stop", Json::object()));
    return events;
  }

  Json whole() const override {
    const Output& whole = output_.whole();
    Json content = Json::array();
    if (!whole.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", whole.reasoning}, {"signature", ""}});
    if (!whole.content.empty()) content.push_back({{"type", "text"}, {"text", whole.content}});
    for (size_t i = 0; i < whole.calls.size(); ++i) {
      content.push_back(call_block(i));
      content.back()["input"] = arguments_of(whole.calls[i]);
    }
    Json message = message_of(std::move(content), stop_reason());
    message["stop_sequence"] = stop_sequence();
    message["usage"] = usage();
    return message;
  }

  bool is_complete(size_t) const override { return !output_.stop().empty(); }

 private:
  enum class Block { None, Thinking, Text, Call };

  static StreamEvent event(const char* name, Json data) {
    Json all = {{"type", name}};
    all.update(data);
    return {name, std::move(all)};
  }

  Json message_of(Json content, Json stop_reason) const {
    return {{"id", "msg_" + stamp_.id},      {"type", "message"},
            {"role", "assistant"},           {"model", model_},
            {"content", std::move(content)}, {"stop_reason", std::move(stop_reason)},
            {"stop_sequence", nullptr}};
  }

  // Its input comes apart.
  Json call_block(size_t number) const {
    const ToolCall& call = output_.whole().calls[number];
    const std::string made_up = "toolu_" + stamp_.id + std::to_string(number);
    return {{"type", "tool_use"},
            {"id", call.id.empty() ? made_up : call.id},
            {"name", call.name},
            {"input", Json::object()}};
  }

  Json usage() const {
    return {{"input_tokens", end_.prompt_tokens - end_.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", end_.cached_tokens},
            {"output_tokens", end_.tokens}};
  }

  const char* stop_reason() const {
    if (output_.calls() > 0 && !output_.is_cut_in_call()) return "tool_use";
    if (!output_.stop().empty()) return "stop_sequence";
    if (end_.reason != Finish::Length) return "end_turn";
    return end_.tokens == most_tokens_ ? "max_tokens" : "model_context_window_exceeded";
  }

  Json stop_sequence() const { return output_.stop().empty() ? Json() : Json(output_.stop()); }

  // --- the stream: blocks begin, grow and end, one after another

  void begin_block(StreamEvents& events, Block kind, Json block) {
    close_block(events);
    events.push_back(event("content_block_start", {{"index", blocks_}, {"content_block", std::move(block)}}));
    block_ = kind;
  }

  void grow_block(StreamEvents& events, Json delta) const {
    events.push_back(event("content_block_delta", {{"index", blocks_}, {"delta", std::move(delta)}}));
  }

  void end_block(StreamEvents& events) {
    events.push_back(event("content_block_stop", {{"index", blocks_++}}));
    block_ = Block::None;
  }

  void close_block(StreamEvents& events) {
    if (block_ == Block::None) return;
    if (block_ == Block::Thinking) grow_block(events, {{"type", "signature_delta"}, {"signature", ""}});
    end_block(events);
  }

  void grow_call(StreamEvents& events, const ToolCall& part) {
    if (!part.arguments.empty()) grow_block(events, {{"type", "input_json_delta"}, {"partial_json", part.arguments}});
    if (part.is_whole) end_block(events);
  }

  // More of a call that has begun comes before all else.
  StreamEvents events_of(const Output& news) {
    StreamEvents events;
    size_t call = output_.calls() - news.calls.size();
    auto part = news.calls.begin();
    if (news.continues_call) {
      grow_call(events, *part++);
      ++call;
    }
    if (!news.reasoning.empty()) {
      if (block_ != Block::Thinking)
        begin_block(events, Block::Thinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      grow_block(events, {{"type", "thinking_delta"}, {"thinking", news.reasoning}});
    }
    if (!news.content.empty()) {
      if (block_ != Block::Text) begin_block(events, Block::Text, {{"type", "text"}, {"text", ""}});
      grow_block(events, {{"type", "text_delta"}, {"text", news.content}});
    }
    for (; part != news.calls.end(); ++part) {
      begin_block(events, Block::Call, call_block(call++));
      grow_call(events, *part);
    }
    return events;
  }

  Stamp stamp_;
  std::string model_;
  int64_t most_tokens_, prompt_tokens_;
  ChatOutput output_;
  GenerationEnd end_;
  Block block_ = Block::None;
  int blocks_ = 0;  // that have ended
};

}  // namespace

std::unique_ptr<Answer> make_messages_answer(const ServedModel& model, const Settings& settings,
                                             const PreparedChat& prepared, const Stamp& stamp) {
  return std::make_unique<MessagesAnswer>(model, settings, prepared, stamp);
}

}  // namespace smelt
