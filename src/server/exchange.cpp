#include "server/exchange.h"

#include <utility>

#include "server/json_reply.h"
#include "server/settings.h"

namespace smelt {

Exchange::Exchange(ExchangeHost& host, const ApiForm& form, ApiRequest request, std::shared_ptr<HttpReply> reply)
    : host_(host), form_(form), answer_(std::move(request.answer)), reply_(std::move(reply)), stream_(request.stream) {}

Status Exchange::start(ExchangeHost& host, const ApiForm& form, ApiRequest request, std::shared_ptr<HttpReply> reply) {
  std::vector<GenerationRequest> generations = std::move(request.generations);
  const std::shared_ptr<Exchange> exchange(new Exchange(host, form, std::move(request), std::move(reply)));
  SMELT_CHECK(exchange->submit(std::move(generations)));
  exchange->begin();
  return {};
}

// All of them or none.
Status Exchange::submit(std::vector<GenerationRequest> generations) {
  for (GenerationRequest& generation : generations) {
    // A client waits for the first token and for the end; those in between may come in company.
    auto sink = [self = shared_from_this(), number = ids_.size(), is_first = true](GenerationEvent event) mutable {
      const bool is_awaited = std::exchange(is_first, false) || event.end;
      auto work = [self, number, event = std::move(event)] { self->take(number, event); };
      (is_awaited ? self->host_.post : self->host_.post_soon)(std::move(work));
    };
    const auto id = host_.backend.submit(std::move(generation), std::move(sink));
    if (!id) {
      abandon();
      return id.error();
    }
    ids_.push_back(*id);
    taken_.push_back(0);
    ++running_;
  }
  return {};
}

void Exchange::begin() {
  reply_->when_gone([self = weak_from_this()] {
    if (const auto exchange = self.lock()) exchange->abandon();
  });
  if (!stream_) return;
  reply_->begin({.type = "text/event-stream", .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}},
                form_.ping);
  send(answer_->begin());
}

void Exchange::abandon() {
  is_over_ = true;
  for (Backend::Id id : ids_) host_.backend.cancel(id);
}

void Exchange::take(size_t number, const GenerationEvent& event) {
  if (!event.tokens.empty() && !is_over_ && !answer_->is_complete(number)) {
    taken_[number] += static_cast<int64_t>(event.tokens.size());
    send(answer_->take(number, event));
    if (answer_->is_complete(number)) host_.backend.cancel(ids_[number]);
  }
  if (event.end) finish(number, *event.end);
}

void Exchange::finish(size_t number, GenerationEnd end) {
  // The backend may have gone on, or come to an end of its own, before it heard of the stop string.
  if (!is_over_ && answer_->is_complete(number)) {
    end.reason = Finish::Stop;
    end.tokens = taken_[number];
  }
  host_.ended(end);
  --running_;
  tell_end(number, end);
  if (running_ == 0) reply_ = nullptr;  // here: the backend may keep this for longer, on a thread of its own
}

void Exchange::tell_end(size_t number, const GenerationEnd& end) {
  if (is_over_) return;
  if (end.reason == Finish::Failed || end.reason == Finish::Cancelled) return fail_late(end);
  send(answer_->finish(number, end));
  if (running_ == 0) finish_all();
}

void Exchange::finish_all() {
  if (!stream_) {
    reply_->send(json_response(answer_->whole()));
  } else {
    send(answer_->finish_all());
    reply_->write(form_.end);
    reply_->end();
  }
  is_over_ = true;
}

void Exchange::fail_late(const GenerationEnd& end) {
  const bool cancelled = end.reason == Finish::Cancelled;
  const ApiError error{.status = cancelled ? 503 : 500,
                       .message = cancelled ? "the server ends" : plain_message({end.error})};
  if (stream_) {
    send({{form_.error_event, form_.error(error)}});
    reply_->end();
  } else {
    fail(*reply_, form_, error);
  }
  abandon();
}

void Exchange::send(const StreamEvents& events) {
  if (!stream_ || is_over_ || events.empty()) return;
  std::string text;
  for (const StreamEvent& event : events) {
    if (!event.name.empty()) text.append("event: ").append(event.name).append("\n");
    text.append("data: ").append(event.text.empty() ? dump(event.data) : event.text).append("\n\n");
  }
  reply_->write(text);
}

}  // namespace smelt
