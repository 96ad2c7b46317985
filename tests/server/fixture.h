// A router without sockets and without an engine: requests go in as values, and the test says what the model writes.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "server/router.h"
#include "server/tiny_model.h"

namespace smelt::test {

// Thinks where it is told to, and calls tools as Hermes does.
inline constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% if enable_thinking %}<think>{% endif %}{% endif %}"
    "{# <think></think> <tool_call>{\"name\": , \"arguments\": }</tool_call> #}"
    "{% if false %}<tool_call>{{ m.tool_calls | tojson }}</tool_call></think>{% endif %}";

inline ServedModel new_model() {
  auto made = ServedModel::make(tiny_file(), tiny_tokenizer(), "tiny", 256, kTemplate);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  return made.take();
}

inline const ServedModel& served_model() {
  static const ServedModel model = new_model();
  return model;
}

class FakeBackend : public Backend {
 public:
  struct Job {
    GenerationRequest request;
    Sink sink;
    bool cancelled = false;
  };

  Result<Id> submit(GenerationRequest request, Sink sink) override {
    if (jobs.size() >= limit) return Error{"[serve] 2 requests wait already; try again later"};
    jobs.push_back({std::move(request), std::move(sink)});
    return jobs.size();
  }
  void cancel(Id id) override { jobs[id - 1].cancelled = true; }
  BackendLoad load() const override {
    return {.running = 1, .waiting = 2, .is_full = jobs.size() >= limit, .cache_use = 0.25, .failure = failure};
  }
  BackendCounts counts() const override {
    BackendCounts counts;
    counts.cached_tokens = 3;
    counts.first_token.add(0.02);
    return counts;
  }
  std::vector<BackendSlot> slots() const override { return {{.request = 7, .prompt_tokens = 5}}; }

  // What the model writes, token by token, for the last request or an earlier one; and the end.
  void write(const std::string& text, size_t job = SIZE_MAX) {
    Job& to = jobs[std::min(job, jobs.size() - 1)];
    for (int32_t id : tiny_tokenizer().encode(text, true, false)) {
      GenerationEvent event{.tokens = {id}};
      if (to.request.top_logprobs >= 0) event.logprobs = {{{id, -0.5f}, {{id, -0.5f}, {7, -1.0f}}}};
      to.sink(std::move(event));
      ++written;
    }
  }
  void end(Finish reason, const std::string& error = {}, size_t job = SIZE_MAX) {
    Job& to = jobs[std::min(job, jobs.size() - 1)];
    const auto prompt = static_cast<int64_t>(to.request.prompt.size());
    to.sink({.end = GenerationEnd{.reason = reason,
                                  .error = error,
                                  .prompt_tokens = prompt,
                                  .cached_tokens = 3,
                                  .tokens = written,
                                  .prompt_seconds = 0.5,
                                  .decode_seconds = 0.25}});
  }

  size_t limit = 100;
  std::string failure;
  int64_t written = 0;
  std::deque<Job> jobs;
};

class FakeReply : public HttpReply {
 public:
  void send(HttpResponse r) override {
    CHECK(!ended);
    response = std::move(r);
    ended = true;
  }
  void begin(HttpResponse head, std::string ping) override {
    response = std::move(head);
    ping_text = std::move(ping);
  }
  void write(std::string_view data) override { response.body += data; }
  void end() override {
    CHECK(!ended);
    ended = true;
  }
  void when_gone(std::function<void()> callback) override { gone = std::move(callback); }

  Json json() const { return Json::parse(response.body); }
  // The events of a stream, each with its name, which may be empty; what is no JSON (the [DONE] of the end) is left
  // out.
  std::vector<StreamEvent> events() const {
    std::vector<StreamEvent> list;
    std::string_view rest = response.body;
    while (!rest.empty()) {
      const size_t end = rest.find("\n\n");
      REQUIRE(end != std::string_view::npos);
      std::string_view event = rest.substr(0, end), name;
      rest.remove_prefix(end + 2);
      if (event.starts_with("event: ")) {
        name = event.substr(7, event.find('\n') - 7);
        event.remove_prefix(event.find('\n') + 1);
      }
      REQUIRE(event.starts_with("data: "));
      Json data = Json::parse(event.substr(6), nullptr, false);
      if (!data.is_discarded()) list.push_back({std::string(name), std::move(data)});
    }
    return list;
  }
  std::vector<Json> chunks() const {
    std::vector<Json> list;
    for (const StreamEvent& event : events()) list.push_back(event.data);
    return list;
  }

  HttpResponse response;
  std::string ping_text;
  bool ended = false;
  std::function<void()> gone;
};

struct Served {
  explicit Served(RouterOptions options = {})
      : Served(std::move(options), [](size_t, const Router::Work& work) { return work(), true; }) {}
  Served(RouterOptions options, std::function<bool(size_t, Router::Work)> prepare,
         const ServedModel& model = served_model())
      : router(model, backend, std::move(options), {at_once, at_once, std::move(prepare)}) {}
  explicit Served(const ServedModel& model)
      : Served({}, [](size_t, const Router::Work& work) { return work(), true; }, model) {}
  static void at_once(const Router::Work& work) { work(); }

  std::shared_ptr<FakeReply> ask(HttpRequest request) {
    auto reply = std::make_shared<FakeReply>();
    router.handle(std::move(request), reply);
    return reply;
  }
  std::shared_ptr<FakeReply> get(const std::string& path) { return ask({.method = "GET", .path = path}); }
  std::shared_ptr<FakeReply> post(const std::string& path, const Json& body) {
    return ask({.method = "POST",
                .path = path,
                .headers = {{"Host", "127.0.0.1:8080"}, {"Content-Type", "application/json"}},
                .body = body.dump()});
  }
  // A question in a chat, with more fields.
  std::shared_ptr<FakeReply> chat(Json more = Json::object()) {
    Json body = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}}})}};
    body.update(more);
    return post("/v1/chat/completions", body);
  }

  FakeBackend backend;
  Router router;
};

}  // namespace smelt::test
